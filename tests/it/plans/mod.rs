//! Plans, flags, corpora of the hub and several runs, by way of the binary.

#[path = "../../../engine/corpus/src/hub/tests/fake.rs"]
#[expect(dead_code, reason = "the hub's other manners are tested beside the client")]
mod fake;
mod hub;
mod locks;
mod profile;
mod runs;
mod schema;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// What a command said and how it ended.
#[derive(Debug)]
struct Ended {
    code: i32,
    out: String,
    err: String,
}

/// The binary in the repository's folder, with no variables that would change a plan, and no network.
fn agentx(words: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentx"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(words);
    for (name, _) in std::env::vars() {
        if ["AGENTX_", "AIPERF_", "HF_"].iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command.env("HF_HUB_OFFLINE", "1").env_remove("XDG_CACHE_HOME").envs(variables.iter().copied());
    let output = command.output().expect("the binary starts");
    Ended {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A JSON file.
fn json(path: impl AsRef<Path>) -> Value {
    let path = path.as_ref();
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A simulated server in another process; ends with the test.
struct Mock {
    process: Child,
    port: String,
}

impl Mock {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_agentx"))
            .args(["mock-server", "--port", "0", "--ttft-ms", "5", "--itl-ms", "1"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let mut line = String::new();
        let out = process.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let port = line.trim().strip_prefix("listening ").expect("the port").to_owned();
        Self { process, port }
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.process.kill().unwrap_or_default();
        self.process.wait().map(|_| ()).unwrap_or_default();
    }
}
