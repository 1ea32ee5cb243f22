//! Building the lanes: which trace at which instant on which lane (`replay.md` §2.4), and what each of them does first
//! (§5.3, §7.1).

use std::sync::Arc;

use agentx_corpus::SessionTemplate;
use agentx_types::{ConversationIndex, LaneIndex, TemplateIndex, TurnIndex};

use crate::error::ReplayError;
use crate::options::ReplayOptions;
use crate::sampler::Sampler;
use crate::snapshot::{LiveStream, Snapshot};
use crate::t_star;

/// The play a lane starts with.
#[derive(Clone, Debug)]
pub struct LanePlan {
    /// Its lane.
    pub lane: LaneIndex,
    /// Its template.
    pub template: TemplateIndex,
    /// Seed and uniform draw behind t*; absent when t* was given.
    pub draw: Option<(u64, f64)>,
    /// What is live at t*.
    pub snapshot: Snapshot,
}

/// All lanes, and the sampler where lane building left it.
#[derive(Debug)]
pub struct Lanes {
    /// In lane order.
    pub plans: Vec<LanePlan>,
    /// Goes on with the recycles.
    pub sampler: Sampler,
    /// Warnings for the log: unusable draws, a capped pool.
    pub warnings: Vec<String>,
}

/// Checks the wrap rule (§2.2).
///
/// # Errors
/// [`ReplayError::Wrapping`] when a bounded run has more lanes than traces and may not wrap.
pub fn check_wrapping(roots: usize, options: &ReplayOptions) -> Result<(), ReplayError> {
    let concurrency = options.concurrency as usize;
    let may_wrap = options.allow_wrap || options.marker != agentx_types::MarkerTarget::None;
    let unbounded = options.duration.is_none() && options.request_count.is_none() && options.session_count.is_none();
    let within_budget = options.session_count.is_some_and(|sessions| sessions <= roots as u64);
    if may_wrap || unbounded || within_budget || concurrency <= roots {
        return Ok(());
    }
    Err(ReplayError::Wrapping { concurrency, roots })
}

/// Draws a root and an instant for each lane.
///
/// # Errors
/// An empty pool, every draw unusable, or more lanes than traces without wrapping.
pub fn build(templates: &[Arc<SessionTemplate>], options: &ReplayOptions) -> Result<Lanes, ReplayError> {
    if templates.is_empty() {
        return Err(ReplayError::EmptyPool);
    }
    check_wrapping(templates.len(), options)?;
    let mut sampler = Sampler::new(options.sampling, templates.len(), options.seed);
    let mut plans: Vec<LanePlan> = Vec::new();
    let mut warnings = Vec::new();
    let mut skipped = std::collections::BTreeSet::new();
    let draws = options.concurrency as usize + 2 * templates.len().max(1);
    for _ in 0..draws {
        if plans.len() == options.concurrency as usize {
            break;
        }
        let Some(index) = sampler.draw() else { break };
        let template = &templates[index.index()];
        let lane = LaneIndex::from(plans.len());
        match start_of(template, lane, options) {
            Ok((draw, snapshot)) => plans.push(LanePlan { lane, template: index, draw: Some(draw), snapshot }),
            Err(why) => {
                if skipped.insert(template.id.clone()) {
                    warnings.push(format!("trace {} cannot be used: {why}; drawing another", template.id));
                }
            }
        }
    }
    if plans.is_empty() {
        return Err(ReplayError::AllSkipped { traces: templates.len(), reasons: warnings });
    }
    if plans.len() < options.concurrency as usize {
        warnings.push(format!(
            "the pool is capped: {} of {} lanes could be built; running with {}",
            plans.len(),
            options.concurrency,
            plans.len()
        ));
    }
    Ok(Lanes { plans, sampler, warnings })
}

/// Lanes at given instants, for golden schedules; the sampler stands behind as many draws as there are lanes.
///
/// # Errors
/// A trace that is not loaded, or has nothing live at its instant.
pub fn build_given(
    templates: &[Arc<SessionTemplate>],
    given: &[(String, f64)],
    options: &ReplayOptions,
) -> Result<Lanes, ReplayError> {
    let mut sampler = Sampler::new(options.sampling, templates.len(), options.seed);
    let mut plans = Vec::new();
    for (lane, (trace, t_star_ms)) in given.iter().enumerate() {
        let position = templates.iter().position(|t| *t.id == **trace || *t.name == **trace);
        let template = position.ok_or_else(|| ReplayError::UnknownTrace { trace: trace.clone() })?;
        let snapshot = Snapshot::at(&templates[template], *t_star_ms)
            .ok_or_else(|| ReplayError::NothingLive { trace: trace.clone(), t_star_ms: *t_star_ms })?;
        sampler.draw();
        plans.push(LanePlan {
            lane: LaneIndex::from(lane),
            template: TemplateIndex::from(template),
            draw: None,
            snapshot,
        });
    }
    if plans.is_empty() {
        return Err(ReplayError::EmptyPool);
    }
    Ok(Lanes { plans, sampler, warnings: Vec::new() })
}

type Start = ((u64, f64), Snapshot);

fn start_of(template: &SessionTemplate, lane: LaneIndex, options: &ReplayOptions) -> Result<Start, String> {
    if template.root().turns.is_empty() {
        return Err("it has no turns".into());
    }
    if template.request_count() < 2 {
        return Err("too short to split: it has a single request".into());
    }
    let seed = t_star::lane_seed(options.seed, &template.id, lane.0);
    let Some(bounds) = template.bounds_ms() else {
        return start_without_times(template, seed, options).map(|snapshot| ((seed, 0.0), snapshot));
    };
    let u = t_star::first_uniform(seed);
    let t_star_ms = t_star::t_star_ms(bounds, options.start_ratio, u);
    let snapshot = Snapshot::at(template, t_star_ms).ok_or("no stream has a turn at or after t*")?;
    Ok(((seed, u), snapshot))
}

/// §2.5: templates without timestamps start at a drawn root turn.
fn start_without_times(template: &SessionTemplate, seed: u64, options: &ReplayOptions) -> Result<Snapshot, String> {
    let root = template.root();
    let n = root.turns.len();
    if n <= 1 {
        return Err("too short to split: its root has a single turn and no times".into());
    }
    let primer = if n == 2 {
        0
    } else {
        let bound = |ratio: f64| ((ratio * n as f64).floor() as usize).min(n - 2);
        let (low, high) = (bound(options.start_ratio.0), bound(options.start_ratio.1));
        let has_messages = |k: usize| root.turns[k].emitted > 0 && root.turns[k + 1].emitted > 0;
        let candidates: Vec<usize> = (low..=high).filter(|&k| has_messages(k)).collect();
        let count = candidates.len() as u64;
        *candidates.get(t_star::first_below(seed, count) as usize).ok_or("no turn in the start window has messages")?
    };
    let mut snapshot = Snapshot::fresh(template);
    snapshot.live[0].next = TurnIndex::from(primer + 1);
    snapshot.completed[0] = primer as u32 + 1;
    for (spawned, branch) in snapshot.spawned.iter_mut().zip(&template.branches) {
        *spawned = branch.spawn.index() <= primer;
    }
    Ok(snapshot)
}

/// A request that opens a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Opening {
    /// The lane.
    pub lane: LaneIndex,
    /// The stream.
    pub conversation: ConversationIndex,
    /// The turn.
    pub turn: TurnIndex,
    /// When, ms since the start of the phase.
    pub at_ms: f64,
}

/// From t* back to the start of the primer's turn, ms; none for a stream without a primer.
pub fn primer_lead_ms(template: &SessionTemplate, snapshot: &Snapshot, stream: &LiveStream) -> Option<f64> {
    let primer = stream.primer()?;
    let start = template.conversation(stream.conversation).turns[primer.index()].start_ms;
    Some(start.map_or(0.0, |start| (snapshot.t_star_ms - start).max(0.0)))
}

/// The primers of all lanes and when each is sent (§5.3–5.4), in lane and stream order.
pub fn primers<'a>(
    lanes: impl Iterator<Item = (LaneIndex, &'a SessionTemplate, &'a Snapshot)>,
    system_idle_cap: Option<f64>,
    burst: bool,
) -> Vec<Opening> {
    let cap_ms = system_idle_cap.map_or(f64::INFINITY, |seconds| seconds * 1000.0);
    let mut leads = Vec::new();
    for (lane, template, snapshot) in lanes {
        for stream in &snapshot.live {
            if let (Some(turn), Some(lead)) = (stream.primer(), primer_lead_ms(template, snapshot, stream)) {
                leads.push((lane, stream.conversation, turn, lead.min(cap_ms)));
            }
        }
    }
    let max_lead = leads.iter().map(|lead| lead.3).fold(0.0, f64::max);
    let opening = |(lane, conversation, turn, lead)| {
        let at_ms = if burst { 0.0 } else { max_lead - lead };
        Opening { lane, conversation, turn, at_ms }
    };
    leads.into_iter().map(opening).collect()
}

/// The offset that is subtracted from every offset of a lane at the start of profiling (§7.1): the smallest over all
/// lanes, or with `burst` the lane's own.
pub fn profiling_origins_ms<'a>(snapshots: impl Iterator<Item = &'a Snapshot>, burst: bool) -> Vec<f64> {
    let own: Vec<Option<f64>> = snapshots.map(Snapshot::min_offset_ms).collect();
    let global = own.iter().flatten().copied().reduce(f64::min).unwrap_or(0.0);
    own.into_iter().map(|own| if burst { own.unwrap_or(0.0) } else { global }).collect()
}
