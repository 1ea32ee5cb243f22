//! The scripts that compare with the reference, when the shared data is there.

use std::process::Command;

use crate::support::{run, shared, stdout};

#[test]
fn topology_is_the_references() {
    let (Some(traces), Some(golden), Some(tool)) =
        (shared("traces"), shared("golden/topology.jsonl"), shared("tools/compare_topology.py"))
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for (variant, flags) in [
        (None, vec![]),
        (Some("no_split"), vec!["--no-split"]),
        (Some("tool_shaped"), vec!["--tool-shaped"]),
        (Some("synthesis_max_osl=50"), vec!["--synthesis-max-osl", "50"]),
        (Some("models=2"), vec!["--models", "2"]),
    ] {
        let mut arguments = vec!["inspect", traces.to_str().unwrap(), "--format", "topology"];
        arguments.extend(flags);
        let actual = folder.path().join("actual.jsonl");
        std::fs::write(&actual, stdout(&run(&arguments))).unwrap();
        let mut compare = Command::new("python3");
        compare.args([&tool, &golden, &actual]);
        if let Some(variant) = variant {
            compare.args(["--variant", variant]);
        }
        let output = compare.output().unwrap();
        assert!(output.status.success(), "{variant:?}: {}", stdout(&output));
    }
}

#[test]
fn snapshots_and_schedules_are_the_references() {
    let (Some(traces), Some(golden), Some(tool)) =
        (shared("traces"), shared("golden/trajectories.jsonl"), shared("tools/compare_trajectories.py"))
    else {
        return;
    };
    let output = Command::new("python3")
        .args([&tool, &golden])
        .arg("--agentx")
        .arg(env!("CARGO_BIN_EXE_agentx"))
        .arg("--traces")
        .arg(traces)
        .args(["--kinds", "snapshot,phase_start,barriers,schedule,handoff"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stdout(&output));
}
