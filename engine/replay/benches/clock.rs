//! `cargo bench -p agentx-replay`: the idle clock with many timers pending, one for each play.

use agentx_replay::core::clock::{ClockEffect, ClockState};
use agentx_replay::core::step::{Dispatch, Settles, TimerKind, TimerRequest, TreeStep, TurnResult};
use agentx_types::{ConversationIndex, DispatchReason, LaneIndex, Nanos, PlayNumber, TurnIndex};
use divan::Bencher;
use divan::counter::ItemsCount;

/// Timers pending: a small run, a large one, more lanes than a client has sockets for.
const PENDING: [u64; 3] = [10, 1_000, 40_000];
/// Inputs of one iteration.
const INPUTS: u64 = 100;
/// Between two timers.
const STEP: Nanos = Nanos(1_000_000);

/// A clock and the real time it has come to.
struct Rig {
    clock: ClockState,
    now: Nanos,
    pending: u64,
}

impl Rig {
    /// `pending` plays that each wait for one timer, one of them due every millisecond. Another play has a request in
    /// flight, so that the system guard stays out.
    fn new(pending: u64, system_cap: Option<Nanos>, trace_cap: Option<Nanos>, busy: bool) -> Self {
        let mut rig = Self { clock: ClockState::new(system_cap, trace_cap), now: Nanos(0), pending };
        rig.clock.begin(Nanos(0), true, 0);
        if busy {
            rig.send(pending, Settles::Nothing);
        }
        for play in 0..pending {
            rig.send(play, Settles::Nothing);
        }
        for play in 0..pending {
            rig.arm(play, Nanos(STEP.0 * (play as i64 + 1)));
        }
        rig
    }

    fn step(&self, play: u64, settles: Settles) -> TreeStep {
        TreeStep::new(LaneIndex(play as u32), PlayNumber(play), self.clock.moment(self.now), settles)
    }

    /// A request of the play leaves.
    fn send(&mut self, play: u64, settles: Settles) -> Vec<ClockEffect> {
        let mut step = self.step(play, settles);
        step.dispatches.push(Dispatch {
            conversation: ConversationIndex(0),
            turn: TurnIndex(0),
            why: DispatchReason::First,
            due: step.at.replay,
            one_token: false,
        });
        self.clock.apply(&[step], self.now)
    }

    /// The play's request returns; its next turn is due `delay` later.
    fn arm(&mut self, play: u64, delay: Nanos) -> Vec<ClockEffect> {
        let mut step = self.step(play, Settles::Return(TurnResult::Ok));
        let due = step.at.replay.plus(delay);
        step.timers.push(TimerRequest { conversation: ConversationIndex(0), due, kind: TimerKind::Delay });
        self.clock.apply(&[step], self.now)
    }

    /// A play's request leaves and returns at once, and its timer is set anew: as far ahead as the others reach.
    fn rearm(&mut self, play: u64) {
        self.send(play, Settles::Wake);
        self.arm(play, Nanos(STEP.0 * self.pending as i64));
    }

    /// The next timer is due: its play is woken.
    fn fire(&mut self) -> u64 {
        self.now = self.clock.next_wake().unwrap_or_default();
        match self.clock.wake(self.now)[..] {
            [ClockEffect::Due { play, .. }] => play.0,
            ref other => panic!("one timer is due, not {other:?}"),
        }
    }
}

/// A request leaves and returns, and a timer is set: two steps applied.
#[divan::bench(args = PENDING)]
fn arm(bencher: Bencher<'_, '_>, pending: u64) {
    let mut rig = Rig::new(pending, None, None, true);
    let mut play = 0;
    bencher.counter(ItemsCount::new(INPUTS)).bench_local(|| {
        for _ in 0..INPUTS {
            rig.rearm(play);
            play = (play + 1) % pending;
        }
    });
}

/// The next instant is asked for, its timer fires, the play sends, the answer returns and a timer is set again.
#[divan::bench(args = PENDING)]
fn fire(bencher: Bencher<'_, '_>, pending: u64) {
    let mut rig = Rig::new(pending, None, None, true);
    bencher.counter(ItemsCount::new(INPUTS)).bench_local(|| {
        for _ in 0..INPUTS {
            let play = rig.fire();
            rig.rearm(play);
        }
    });
}

/// The same with both guards on and the system idle in between: every timer is reached by a jump of replay time.
#[divan::bench(args = PENDING)]
fn shift(bencher: Bencher<'_, '_>, pending: u64) {
    let cap = Some(Nanos(STEP.0 / 10));
    let mut rig = Rig::new(pending, cap, Some(Nanos::from_seconds(3600.0)), false);
    bencher.counter(ItemsCount::new(INPUTS)).bench_local(|| {
        for _ in 0..INPUTS {
            let play = rig.fire();
            rig.send(play, Settles::Wake);
            let effects = rig.arm(play, Nanos(STEP.0 * pending as i64));
            assert!(matches!(effects[..], [ClockEffect::Jump { .. }]), "{effects:?}");
        }
    });
}

/// A play among others that are busy: its idle time is cut short by the per-trace guard, then its timer fires.
#[divan::bench(args = PENDING)]
fn shift_one_play(bencher: Bencher<'_, '_>, pending: u64) {
    let hour = Nanos::from_seconds(3600.0);
    let mut rig = Rig::new(0, None, Some(STEP), false);
    for play in 0..pending {
        // Two requests out and one back: a timer, and no idle time.
        rig.send(play, Settles::Nothing);
        rig.send(play, Settles::Nothing);
        rig.arm(play, Nanos::from_seconds(1e6));
    }
    let one = pending;
    rig.send(one, Settles::Nothing);
    bencher.counter(ItemsCount::new(INPUTS)).bench_local(|| {
        for _ in 0..INPUTS {
            rig.arm(one, hour);
            rig.now = rig.clock.next_wake().unwrap_or_default();
            let effects = rig.clock.wake(rig.now);
            assert!(matches!(effects[..], [ClockEffect::TraceJump { .. }]), "{effects:?}");
            assert_eq!(rig.fire(), one);
            rig.send(one, Settles::Wake);
        }
    });
}

fn main() {
    divan::main();
}
