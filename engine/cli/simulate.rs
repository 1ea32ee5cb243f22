//! `agentx simulate`: the same engine in virtual time.

use agentx_replay::simulation::{Answer, LatencyTransport, golden_latency};
use agentx_types::{DispatchMeta, Nanos, OutcomeKind, RunClock};

use crate::CommandResult;
use crate::args::SimulateArgs;
use crate::failure::Failure;
use crate::lanes::read_lanes;
use crate::plan_request::load_run;
use crate::run::Prepared;
use crate::runs::start;
use crate::witness::Witness;

/// How long the simulated server takes.
#[derive(Clone, Debug, PartialEq)]
enum Latency {
    Fixed(Nanos),
    Golden(Vec<(String, f64)>),
}

impl Latency {
    fn parse(spec: &str, slow: &[String]) -> Result<Self, Failure> {
        if spec == "golden" {
            let pair = |text: &String| {
                let (name, ms) = text.rsplit_once('=')?;
                Some((name.to_string(), ms.parse::<f64>().ok().filter(|ms| ms.is_finite() && *ms >= 0.0)?))
            };
            let wrong =
                |text: &String| Failure::Usage(format!("--slow `{text}`: expected TEXT=MS, such as `::sa:=25000`"));
            let pairs: Result<_, _> = slow.iter().map(|text| pair(text).ok_or_else(|| wrong(text))).collect();
            return Ok(Self::Golden(pairs?));
        }
        if !slow.is_empty() {
            return Err(Failure::Usage("--slow goes with `--latency golden` only".into()));
        }
        let fixed = spec.strip_prefix("fixed:").and_then(|ms| ms.parse::<f64>().ok());
        match fixed.filter(|ms| ms.is_finite() && *ms >= 0.0) {
            Some(ms) => Ok(Self::Fixed(Nanos::from_millis(ms))),
            None => Err(Failure::Usage(format!("--latency `{spec}`: expected `fixed:MS` or `golden`"))),
        }
    }

    fn of(&self, meta: &DispatchMeta) -> Nanos {
        match self {
            Self::Fixed(latency) => *latency,
            Self::Golden(slow) => golden_latency(slow, meta),
        }
    }
}

/// The command.
pub(crate) fn simulate(args: &SimulateArgs) -> CommandResult {
    let latency = Latency::parse(&args.latency, &args.slow)?;
    let given = args.lanes.as_deref().map(read_lanes).transpose()?;
    start(&|| load_run(&args.run), &args.run.control(), &|loaded, run| {
        let prepared = Prepared::new(loaded, run)?;
        let lanes = prepared.lanes(given.as_deref())?;
        let wall_origin_ns = RunClock::start().wall_origin_ns();
        let recorder = prepared.record(loaded, wall_origin_ns, lanes.plans.len(), true, None)?;
        let latency = latency.clone();
        let witness = Witness::new(recorder.clone());
        let end = prepared.replay(lanes, witness.clone(), given.is_some()).simulate(wall_origin_ns, move |clock| {
            LatencyTransport::new(clock, move |meta| Answer { latency: latency.of(meta), kind: OutcomeKind::Ok })
        });
        let code = prepared.export(loaded, run, &recorder, end.map_err(|error| error.to_string()), None)?;
        Ok(witness.judge(&prepared, given.is_some(), code)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_read_or_refused_with_the_form_that_is_expected() {
        let parse =
            |spec: &str, slow: &[&str]| Latency::parse(spec, &slow.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(parse("fixed:800", &[]).ok(), Some(Latency::Fixed(Nanos::from_millis(800.0))));
        assert_eq!(parse("golden", &["::sa:=25"]).ok(), Some(Latency::Golden(vec![("::sa:".into(), 25.0)])));
        for (spec, slow) in [("fixed:-1", vec![]), ("fast", vec![]), ("fixed:NaN", vec![]), ("golden", vec!["x"])] {
            let text = format!("{:?}", parse(spec, &slow).err());
            assert!(text.contains("expected"), "{text}");
        }
        assert!(parse("fixed:1", &["a=1"]).is_err());
    }
}
