//! Both guards against the worked timelines, and what the clock waits for.

use super::*;
use crate::core::step::{Dispatch, TimerRequest, TurnResult};
use agentx_types::{DispatchReason, TurnIndex};

fn seconds(s: f64) -> Nanos {
    Nanos::from_seconds(s)
}

struct Rig {
    clock: ClockState,
}

impl Rig {
    fn new(system: Option<f64>, trace: Option<f64>) -> Self {
        let mut clock = ClockState::new(system.map(seconds), trace.map(seconds));
        clock.begin(Nanos(0), true, 0);
        Self { clock }
    }

    fn step(&self, play: u64, at: f64, settles: Settles) -> TreeStep {
        let moment = self.clock.moment(seconds(at));
        TreeStep::new(LaneIndex(play as u32), PlayNumber(play), moment, settles)
    }

    /// A return at `at` after which the stream's next turn is due `delay` later.
    fn returns(&mut self, play: u64, at: f64, delay: Option<f64>) -> Vec<ClockEffect> {
        let mut step = self.step(play, at, Settles::Return(TurnResult::Ok));
        if let Some(delay) = delay {
            let due = step.at.replay.plus(seconds(delay));
            step.timers.push(TimerRequest { conversation: ConversationIndex(0), due, kind: TimerKind::Delay });
        }
        self.clock.apply(&[step], seconds(at))
    }

    fn sends(&mut self, play: u64, at: f64, settles: Settles) -> Vec<ClockEffect> {
        let mut step = self.step(play, at, settles);
        step.dispatches.push(Dispatch {
            conversation: ConversationIndex(0),
            turn: TurnIndex(0),
            why: DispatchReason::First,
            due: step.at.replay,
            one_token: false,
        });
        self.clock.apply(&[step], seconds(at))
    }

    fn next(&self) -> f64 {
        self.clock.next_wake().map_or(f64::NAN, Nanos::as_seconds)
    }
}

#[test]
fn the_system_guard_of_timeline_17_4() {
    let mut rig = Rig::new(Some(10.0), None);
    rig.sends(0, 0.0, Settles::Nothing);
    rig.sends(1, 0.0, Settles::Nothing);
    assert!(rig.returns(0, 1.0, Some(19.0)).is_empty(), "the other lane is still in flight");
    let effects = rig.returns(1, 1.0, Some(34.0));
    assert!(matches!(effects[..], [ClockEffect::Jump { span, timers: 2, .. }] if span == seconds(9.0)));
    assert_eq!(rig.next(), 11.0);
    assert_eq!(rig.clock.wake(seconds(11.0)).len(), 1);
    rig.sends(0, 11.0, Settles::Wake);
    assert!(rig.returns(0, 12.0, Some(5.0)).is_empty(), "5 s away: no jump");
    assert_eq!(rig.next(), 17.0);
}

#[test]
fn an_idle_interval_never_exceeds_the_cap_however_many_turns_end_retained() {
    let mut rig = Rig::new(Some(10.0), None);
    rig.sends(0, 0.0, Settles::Nothing);
    let mut step = rig.step(0, 1.0, Settles::Return(TurnResult::Ok));
    for (conversation, due) in [(0, 31.0), (1, 60.0)] {
        let due = ReplayTime(seconds(due).0);
        step.timers.push(TimerRequest { conversation: ConversationIndex(conversation), due, kind: TimerKind::Delay });
    }
    rig.clock.apply(&[step], seconds(1.0));
    assert_eq!(rig.next(), 11.0);
    rig.clock.wake(seconds(11.0));
    // The woken turn ends retained: nothing is left of the budget.
    let retained = rig.step(0, 11.0, Settles::Wake);
    let effects = rig.clock.apply(&[retained], seconds(11.0));
    assert!(matches!(effects[..], [ClockEffect::Jump { .. }]));
    assert_eq!(rig.next(), 11.0);
}

#[test]
fn the_trace_guard_of_timeline_17_8_moves_one_tree_only() {
    let mut rig = Rig::new(None, Some(3.0));
    rig.sends(0, 0.0, Settles::Nothing);
    rig.sends(1, 0.0, Settles::Nothing);
    rig.returns(0, 1.0, Some(19.0));
    rig.returns(1, 1.0, Some(34.0));
    assert_eq!(rig.next(), 4.0);
    let effects = rig.clock.wake(seconds(4.0));
    let spans: Vec<f64> = effects
        .iter()
        .filter_map(|e| if let ClockEffect::TraceJump { span, .. } = e { Some(span.as_seconds()) } else { None })
        .collect();
    assert_eq!(spans, [16.0, 31.0]);
    assert_eq!(rig.clock.wake(seconds(4.0)).len(), 2, "both timers are due now");
    rig.sends(0, 4.0, Settles::Wake);
    rig.sends(1, 4.0, Settles::Wake);
    rig.returns(0, 5.0, Some(5.0));
    rig.returns(1, 5.0, Some(3.0));
    let at_eight = rig.clock.wake(seconds(8.0));
    assert!(matches!(at_eight[0], ClockEffect::Due { play: PlayNumber(1), .. }), "by its own timer");
    assert!(matches!(at_eight[1], ClockEffect::TraceJump { play: PlayNumber(0), span, .. } if span == seconds(2.0)));
}

#[test]
fn quiet_waits_for_every_answer() {
    let mut rig = Rig::new(Some(10.0), None);
    rig.clock.begin(Nanos(0), true, 2);
    let first = rig.step(0, 0.0, Settles::Command);
    assert!(rig.clock.apply(&[first], Nanos(0)).is_empty());
    let second = rig.step(1, 0.0, Settles::Command);
    assert!(matches!(rig.clock.apply(&[second], Nanos(0))[..], [ClockEffect::Quiet(_)]));
}

#[test]
fn a_stop_drops_every_replay_timer_and_no_real_deadline() {
    let mut rig = Rig::new(Some(10.0), None);
    rig.sends(0, 0.0, Settles::Nothing);
    rig.returns(0, 1.0, Some(5.0));
    rig.clock.set_deadline(Deadline::Grace, seconds(40.0));
    rig.clock.stop(0);
    assert_eq!(rig.next(), 40.0);
    assert!(matches!(rig.clock.wake(seconds(40.0))[..], [ClockEffect::Passed(Deadline::Grace, _)]));
}

#[test]
fn a_watchdog_goes_with_its_play_and_with_its_next_request() {
    let mut rig = Rig::new(None, Some(3.0));
    for play in 0..3 {
        rig.sends(play, 0.0, Settles::Nothing);
    }
    for (play, at) in [(0, 1.0), (1, 2.0), (2, 2.5)] {
        rig.returns(play, at, Some(100.0));
    }
    assert_eq!(rig.next(), 4.0, "the earliest of three");
    rig.sends(0, 3.0, Settles::Nothing);
    assert_eq!(rig.next(), 5.0, "play 0 is busy again");
    let mut drained = rig.step(1, 3.5, Settles::Nothing);
    drained.drained = true;
    rig.clock.apply(&[drained], seconds(3.5));
    assert_eq!(rig.next(), 5.5, "play 1 is gone");
    let jumps = rig.clock.wake(seconds(5.5));
    assert!(matches!(jumps[..], [ClockEffect::TraceJump { play: PlayNumber(2), .. }]), "{jumps:?}");
}
