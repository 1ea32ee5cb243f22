//! Tables of small lists: what is split off, joined back, and called.

use serde_json::{Value, json};

use crate::options::{CorpusOptions, WekaKnobs};
use crate::testing::{outline, request, subagent, template, template_with, trace_json, with};

/// `n` ids from `first`.
fn row(first: u64, n: u64) -> Vec<u64> {
    (first..first + n).collect()
}

/// The first `shared` ids of the row from 1, then `n` from `first`.
fn fork(shared: u64, first: u64, n: u64) -> Vec<u64> {
    row(1, shared).into_iter().chain(row(first, n)).collect()
}

#[track_caller]
fn check(expected: &str, entries: &[Value]) {
    assert_eq!(outline(&template(entries)), expected);
}

#[track_caller]
fn check_with(expected: &str, entries: &[Value], change: impl FnOnce(&mut WekaKnobs)) {
    let mut options = CorpusOptions::default();
    change(&mut options.weka);
    assert_eq!(outline(&template_with(&trace_json(entries), &options)), expected);
}

/// A request large enough to be an agent of its own.
fn big(t: f64, ids: Vec<u64>, api_time: f64) -> Value {
    with(request(t, ids, api_time), json!({ "in": 20_000, "out": 1_500 }))
}

#[test]
fn growth_and_equal_prompts_extend() {
    check("main 0 1 2", &[request(0.0, row(1, 3), 1.0), request(2.0, row(1, 5), 1.0), request(4.0, row(1, 5), 1.0)]);
}

#[test]
fn overlap_forks_beyond_a_microsecond() {
    for (start, expected) in [(2.0, "main 0 1"), (2.0 - 1e-7, "main 0 1"), (2.0 - 1e-3, "main 0, aux:000 1")] {
        check(expected, &[request(0.0, row(1, 3), 2.0), request(start, row(1, 4), 1.0)]);
    }
}

#[test]
fn missing_negative_and_zero_times_are_no_time() {
    for api_time in [json!(null), json!(-5.0), json!(0.0)] {
        let first = with(request(0.0, row(1, 3), 0.0), json!({ "api_time": api_time }));
        check("main 0 1", &[first, request(0.0, row(1, 4), 1.0)]);
    }
}

#[test]
fn a_shorter_context_goes_on_unless_the_longer_one_comes_back() {
    let edit = [request(0.0, row(1, 10), 1.0), request(2.0, fork(5, 50, 3), 1.0)];
    check("main 0 1", &edit);
    let mut back = edit.to_vec();
    back.push(request(4.0, row(1, 12), 1.0));
    check("main 0 2, aux:000 1", &back);
}

#[test]
fn seams_are_guarded_by_gap_and_overlap_together() {
    // The gap counts from the end of the tail, which is at 1 s.
    for (start, shared, expected) in
        [(3601.0, 4, "main 0 1"), (3602.0, 5, "main 0 1"), (3602.0, 4, "main 0, aux:000 1")]
    {
        check(expected, &[request(0.0, row(1, 10), 1.0), request(start, fork(shared, 50, 3), 1.0)]);
    }
}

#[test]
fn seams_cascade_and_the_deepest_fork_is_elected() {
    // Forks at depth 2 and 4 off one dead tail: the deeper one goes on, the other one is measured against it anew.
    let entries = [
        request(0.0, row(1, 6), 0.5),
        request(2.0, fork(2, 80, 2), 0.5),
        request(3.0, fork(4, 90, 2), 0.5),
        request(5.0, fork(4, 90, 4), 0.5),
    ];
    check("main 0 2 3, aux:000 1", &entries);
    check(
        "main 0 1 2 4, aux:000 3",
        &[
            request(0.0, row(1, 6), 0.5),
            request(2.0, fork(2, 80, 4), 0.5),
            request(4.0, [1, 2, 80, 91], 10.0),
            request(6.0, [1, 2, 80, 91, 99], 0.5),
            request(20.0, [1, 2, 80, 91, 92], 0.5),
        ],
    );
}

#[test]
fn another_model_forks_and_never_seams() {
    let other = |t, ids| with(request(t, ids, 1.0), json!({ "model": "x" }));
    check("main 0 2, aux:000 1", &[request(0.0, row(1, 3), 1.0), other(2.0, row(1, 4)), request(4.0, row(1, 4), 1.0)]);
    check(
        "main 0 3, fa:000 1 2",
        &[request(0.0, row(1, 3), 1.0), other(2.0, row(1, 4)), other(4.0, row(1, 5)), request(6.0, row(1, 4), 1.0)],
    );
    let once = [request(0.0, row(1, 3), 1.0), with(big(2.0, row(1, 4), 1.0), json!({ "model": "x" }))];
    check("main 0, aux:000 1", &once);
    check_with("main 0, fa:000 1", &once, |knobs| knobs.aux_cross_model = false);
}

#[test]
fn the_best_parent_shares_most_then_has_the_longer_tail() {
    // Four siblings of one fork point: the second forks off the first one's longer tail, so that the group is theirs.
    let sibling = |t: f64, first| big(t, fork(4, first, 6), 30.0);
    let mut entries = vec![big(0.0, row(1, 6), 1.0)];
    entries.extend([(2.0, 100), (3.0, 200), (4.0, 300), (5.0, 400)].map(|(t, first)| sibling(t, first)));
    entries.push(big(100.0, row(1, 8), 1.0));
    check("main 0 5, fa:000 1, wg:000_000 2, wg:000_001 3, wg:000_002 4", &entries);
    check_with("main 0 5, fa:000 1, fa:001 2, fa:002 3, fa:003 4", &entries, |knobs| knobs.worker_group_min = 4);
    check_with("main 0 5, fa:000 1, fa:001 2, fa:002 3, fa:003 4", &entries, |knobs| knobs.worker_group_min = 0);
    check_with("main 0 1 2 3 4 5", &entries, |knobs| knobs.split_flattened_agents = false);
}

#[test]
fn touching_workers_are_no_group_and_auxiliaries_take_member_numbers() {
    // Their tails are shorter than the main agent's, so that all four fork off that one.
    let siblings = |starts: [f64; 4], api_time: f64| {
        let mut entries = vec![big(0.0, row(1, 12), 1.0)];
        entries.extend(starts.iter().zip(1_u64..).map(|(t, n)| big(*t, fork(4, 100 * n, 6), api_time)));
        entries.push(big(100.0, row(1, 13), 1.0));
        entries
    };
    check("main 0 5, fa:000 1, fa:001 2, fa:002 3, fa:003 4", &siblings([2.0, 12.0, 22.0, 32.0], 10.0));
    // Two apart in time from two others: no group of three, though all share the fork point.
    check("main 0 5, fa:000 1, fa:001 2, fa:002 3, fa:003 4", &siblings([2.0, 3.0, 32.0, 33.0], 10.0));
    let mut entries = siblings([2.0, 3.0, 4.0, 5.0], 30.0);
    entries[2] = with(entries[2].clone(), json!({ "in": 640 }));
    check("main 0 5, wg:000_000 1, aux:001 2, wg:000_002 3, wg:000_003 4", &entries);
}

#[test]
fn nothing_in_common_is_a_worker_without_a_fork_point() {
    check(
        "main 0 2, aux:000 1",
        &[request(0.0, row(1, 3), 1.0), request(2.0, row(50, 3), 1.0), request(4.0, row(1, 5), 1.0)],
    );
}

#[test]
fn a_preamble_stays_on_the_main_chain_without_founding_it() {
    let tail = [request(2.0, row(1, 5), 1.0), request(4.0, row(1, 6), 1.0), request(4.5, fork(3, 70, 1), 1.0)];
    let led_by = |leader: Value| [&[leader], &tail[..]].concat();
    check("main 0 1 2, aux:000 3", &led_by(request(0.0, row(900, 2), 1.0)));
    // Large but sharing nothing: a preamble as well. Large and sharing one id: the main agent.
    let large = |ids: Vec<u64>| with(request(0.0, ids, 1.0), json!({ "out": 65 }));
    check("main 0 1 2, aux:000 3", &led_by(large(row(900, 2))));
    check("main 0, fa:000 1 2, aux:001 3", &led_by(large(vec![900, 3])));
    // The limit itself is small.
    check("main 0 1 2, aux:000 3", &led_by(with(request(0.0, [900, 3], 1.0), json!({ "out": 64 }))));
    // At most one.
    let two = [&[request(0.0, row(900, 2), 1.0), request(1.0, row(800, 2), 1.0)], &tail[..]].concat();
    check("main 0 1, fa:000 2 3, aux:001 4", &two);
    // Its model is no yardstick.
    let other = with(request(0.0, row(900, 2), 1.0), json!({ "model": "x" }));
    check(
        "main 0 1 2, fa:000 3",
        &led_by(other)
            .into_iter()
            .enumerate()
            .map(|(n, entry)| if n == 3 { with(entry, json!({ "in": 20_000, "out": 1_500 })) } else { entry })
            .collect::<Vec<_>>(),
    );
}

#[test]
fn rows_without_ids_are_the_main_agents() {
    let bare = |t: f64| with(request(t, [], 1.0), json!({ "in": 100 }));
    check("main 0 1 2", &[bare(0.0), bare(2.0), bare(4.0)]);
    check(
        "main 0 1 2 4, aux:000 3",
        &[
            bare(0.0),
            request(1.0, row(1, 3), 1.0),
            request(3.0, row(1, 4), 1.0),
            request(3.5, row(1, 5), 1.0),
            bare(3.6),
        ],
    );
    // One between a tail and its seam: the joined list is in order of time.
    check(
        "main 0 1 2 4, aux:000 3",
        &[
            request(0.0, row(1, 10), 1.0),
            bare(1.5),
            request(2.0, fork(5, 50, 3), 1.0),
            request(2.5, fork(5, 50, 4), 1.0),
            bare(2.7),
        ],
    );
}

#[test]
fn without_workers_the_list_stays_in_file_order() {
    let entries = [request(0.0, row(1, 3), 1.0), request(9.0, row(1, 5), 1.0), request(4.0, row(1, 4), 1.0)];
    check("main 0 1 2", &entries);
    let mut entries = entries.to_vec();
    entries.push(request(4.5, row(1, 9), 1.0));
    check("main 0 2 1, aux:000 3", &entries);
}

#[test]
fn thresholds_are_strict() {
    let against = |peak: u64, input: u64, output: u64| {
        let worker = with(request(1.5, fork(2, 70, 2), 1.0), json!({ "in": input, "out": output }));
        let main = with(request(1.0, row(1, 5), 1.0), json!({ "in": peak }));
        vec![request(0.0, row(1, 3), 1.0), main, worker]
    };
    for (peak, input, output, class) in [
        (400, 16_383, 5_000, "aux"),
        (400, 16_384, 5_000, "fa"),
        (200_000, 19_999, 5_000, "aux"),
        (200_000, 20_000, 5_000, "fa"),
        // Reductions carry the name of auxiliaries: 0 < out < 4 000 and in > 20 out.
        (400, 16_384, 0, "fa"),
        (400, 16_384, 1, "aux"),
        (400, 90_000, 3_999, "aux"),
        (400, 90_000, 4_000, "fa"),
        (400, 20_000, 1_000, "fa"),
        (400, 20_001, 1_000, "aux"),
    ] {
        check(&format!("main 0 1, {class}:000 2"), &against(peak, input, output));
    }
    check_with("main 0 1, fa:000 2", &against(400, 100, 50), |knobs| knobs.aux_max_requests = 0);
    check_with("main 0 1, fa:000 2", &against(400, 20_001, 1_000), |knobs| knobs.aux_reduction_osl_max = 0);
    check_with("main 0 1, fa:000 2", &against(400, 100, 50), |knobs| {
        (knobs.aux_isl_floor, knobs.aux_isl_ratio) = (0, 0.0)
    });
}

#[test]
fn subagents_are_split_by_the_same_rules() {
    let inside = [
        request(10.0, row(1, 3), 1.0),
        with(request(10.5, [], 1.0), json!({ "in": 30 })),
        request(12.0, row(1, 6), 10.0),
        big(13.0, fork(5, 70, 4), 1.0),
        request(30.0, row(1, 8), 1.0),
    ];
    let entries = [request(0.0, row(500, 3), 1.0), subagent(10.0, "a", &inside), subagent(40.0, "b", &[])];
    check("main 0, sa:a 1.0 1.1 1.2 1.4, sa:a:fa:000 1.3, sa:b", &entries);
    check_with("main 0, sa:a 1.0 1.1 1.2 1.3 1.4, sa:b", &entries, |knobs| knobs.split_flattened_agents = false);
    // Out of order in the file: in order of time on the stream.
    let shuffled = [inside[4].clone(), inside[0].clone(), inside[2].clone()];
    check("main 0, sa:a 1.1 1.2 1.0", &[entries[0].clone(), subagent(10.0, "a", &shuffled)]);
}

#[test]
fn a_worker_takes_the_declared_prefix_only_with_proof() {
    let roles = |shared: u64, api: f64| {
        let worker = big(2.0, fork(shared, 70, 20), 1.0);
        let entries = [request(0.0, row(1, 6), 1.0), request(1.5, row(1, 8), api), worker];
        let trace = with(trace_json(&entries), json!({ "tool_tokens": 100, "system_tokens": 30 }));
        let template = template_with(&trace, &CorpusOptions::default());
        assert_eq!(outline(&template), "main 0 1, fa:000 2");
        template.conversations[1].context_at(0_usize.into())[0].role
    };
    // 130 tokens are 3 blocks.
    assert_eq!(roles(3, 9.0), crate::template::Role::System);
    assert_eq!(roles(2, 9.0), crate::template::Role::User);
}

#[test]
fn many_long_chains_are_split_in_a_moment() {
    use crate::read::Entry;
    use crate::template::Run;
    let mut trace = crate::testing::parse(&trace_json(&[request(0.0, row(1, 3), 0.5)]));
    let Entry::Request(first) = trace.entries[0].clone() else { unreachable!("a request") };
    // 5 000 requests of 15 000 ids in 500 chains that share their first 1 000 ids.
    trace.entries = (0..5_000_u64)
        .map(|n| {
            let (chain, step) = (n % 500, n / 500);
            let mut request = first.clone();
            request.t = n as f64;
            request.id_count = (15_000 + step) as u32;
            request.input = 64 * u64::from(request.id_count);
            request.ids =
                [Run { first: 0, len: 1_000 }, Run { first: 1_000_000 * (chain + 1), len: request.id_count - 1_000 }]
                    .into_iter()
                    .collect();
            Entry::Request(request)
        })
        .collect();
    let (template, _) = crate::testing::reconstruct(&trace, &CorpusOptions::default()).expect("a good trace");
    assert_eq!(template.conversations.len(), 500);
    assert!(template.conversations.iter().all(|conversation| conversation.turns.len() == 10));
}
