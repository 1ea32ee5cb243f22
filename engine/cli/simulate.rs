//! `agentx simulate`: the same engine in virtual time.

use agentx_mock::{MockOptions, Simulated, SimulatedServer};
use agentx_replay::simulation::{Answer, LatencyTransport, golden_latency};
use agentx_types::{Nanos, OutcomeKind, RunClock};

use crate::CommandResult;
use crate::args::SimulateArgs;
use crate::failure::Failure;
use crate::lanes::read_lanes;
use crate::plan_request::load_run;
use crate::run::Prepared;
use crate::runs::start;
use crate::settings;
use crate::witness::Witness;

/// The server that answers.
#[derive(Clone, Debug, PartialEq)]
enum Latency {
    /// The machine of the simulated server.
    Server(Box<MockOptions>),
    /// Every answer at once after so long.
    Fixed(Nanos),
    /// The rule of the golden schedules.
    Golden(Vec<(String, f64)>),
}

/// Options of the simulated server that mean something in virtual time.
const SERVER_OPTIONS: [&str; 8] =
    ["ttft_ms", "prefill_tps", "itl_ms", "itl_batch_ms", "max_running", "block_size", "cache_blocks", "context_limit"];

impl Latency {
    fn parse(spec: Option<&str>, slow: &[String], target: Option<MockOptions>) -> Result<Self, Failure> {
        if spec == Some("golden") {
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
        let Some(spec) = spec else { return Ok(Self::Server(Box::new(target.unwrap_or_default()))) };
        if let Some(fixed) = spec.strip_prefix("fixed:") {
            let ms = fixed.parse::<f64>().ok().filter(|ms| ms.is_finite() && *ms >= 0.0);
            let wrong = || Failure::Usage(format!("--latency `{spec}`: expected `fixed:MS`, such as `fixed:800`"));
            return Ok(Self::Fixed(Nanos::from_millis(ms.ok_or_else(wrong)?)));
        }
        Self::server(spec).map(|options| Self::Server(Box::new(options)))
    }

    /// `key=value,…`: options of the simulated server, its defaults for the rest.
    fn server(spec: &str) -> Result<MockOptions, Failure> {
        let mut map = serde_json::Map::new();
        for pair in spec.split(',') {
            let wrong = || {
                Failure::Usage(format!(
                    "--latency `{spec}`: `{pair}` is not understood; expected `fixed:MS`, `golden`, or `key=number` pairs \
                     separated by commas, of {}",
                    SERVER_OPTIONS.join(", ")
                ))
            };
            let (key, value) = pair.split_once('=').ok_or_else(wrong)?;
            let known = SERVER_OPTIONS.contains(&key.trim());
            let number = value.trim().parse::<serde_json::Number>().ok().filter(|_| known).ok_or_else(wrong)?;
            if map.insert(key.trim().to_string(), number.into()).is_some() {
                return Err(Failure::Usage(format!("--latency `{spec}`: `{}` is given twice", key.trim())));
            }
        }
        let options: MockOptions = serde_json::from_value(map.into())
            .map_err(|error| Failure::Usage(format!("--latency `{spec}`: {error}")))?;
        options.validate().map_err(|error| Failure::Usage(format!("--latency `{spec}`: {error}")))?;
        Ok(options)
    }
}

/// The command.
pub(crate) fn simulate(args: &SimulateArgs) -> CommandResult {
    let given = args.lanes.as_deref().map(read_lanes).transpose()?;
    start(&|| load_run(&args.run), &args.run.control(), &|loaded, run| {
        let latency = Latency::parse(args.latency.as_deref(), &args.slow, settings::mock(&loaded.plan)?)?;
        let prepared = Prepared::new(loaded, run)?;
        let lanes = prepared.lanes(given.as_deref())?;
        let wall_origin_ns = RunClock::start().wall_origin_ns();
        let recorder = prepared.record(loaded, wall_origin_ns, lanes.plans.len(), true, None)?;
        let witness = Witness::new(recorder.clone());
        let replay = prepared.replay(lanes, witness.clone(), given.is_some());
        let end = match latency {
            Latency::Server(options) => {
                let setup = Simulated {
                    options: *options,
                    templates: prepared.templates.clone(),
                    ignore_eos: loaded.plan.target.extra_inputs.get("ignore_eos") == Some(&true.into()),
                    streaming: loaded.plan.target.streaming,
                };
                let server = SimulatedServer::machine(setup).map_err(Failure::of)?;
                replay.simulate(wall_origin_ns, move |clock| server.start(clock))
            }
            Latency::Fixed(latency) => replay.simulate(wall_origin_ns, move |clock| {
                LatencyTransport::new(clock, move |_| Answer { latency, kind: OutcomeKind::Ok })
            }),
            Latency::Golden(slow) => replay.simulate(wall_origin_ns, move |clock| {
                LatencyTransport::new(clock, move |meta| Answer {
                    latency: golden_latency(&slow, meta),
                    kind: OutcomeKind::Ok,
                })
            }),
        };
        let code = prepared.export(loaded, run, &recorder, end.map_err(|error| error.to_string()), None)?;
        Ok(witness.judge(&prepared, given.is_some(), code)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_or_refused_with_the_form_that_is_expected() {
        let parse = |spec: &str, slow: &[&str]| {
            Latency::parse(Some(spec), &slow.iter().map(ToString::to_string).collect::<Vec<_>>(), None)
        };
        assert_eq!(parse("fixed:800", &[]).ok(), Some(Latency::Fixed(Nanos::from_millis(800.0))));
        assert_eq!(parse("golden", &["::sa:=25"]).ok(), Some(Latency::Golden(vec![("::sa:".into(), 25.0)])));
        let options = MockOptions { ttft_ms: 200.0, prefill_tps: Some(8e3), ..MockOptions::default() };
        let server = Latency::Server(Box::new(options.clone()));
        assert_eq!(parse("ttft_ms=200, prefill_tps=8000", &[]).ok(), Some(server.clone()));
        assert_eq!(Latency::parse(None, &[], Some(options)).ok(), Some(server));
        for (spec, slow, words) in [
            ("fixed:-1", vec![], "expected `fixed:MS`"),
            ("fixed:NaN", vec![], "expected `fixed:MS`"),
            ("fast", vec![], "`fast` is not understood"),
            ("ttft=3", vec![], "of ttft_ms, prefill_tps"),
            ("itl_ms=x", vec![], "`itl_ms=x` is not understood"),
            ("itl_ms=-1", vec![], "it must be between 0 and"),
            ("itl_ms=1,itl_ms=2", vec![], "given twice"),
            ("block_size=1.5", vec![], "expected u32"),
            ("golden", vec!["x"], "expected TEXT=MS"),
        ] {
            let text = format!("{:?}", parse(spec, &slow).err());
            assert!(text.contains(words), "{text}");
        }
        assert!(parse("fixed:1", &["a=1"]).is_err());
    }
}
