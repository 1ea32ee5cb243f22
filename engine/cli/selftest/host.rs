//! The child processes of a self-test, and what they use of this host.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use agentx_types::RunClock;

use crate::failure::Failure;

/// Between two looks at a process.
const LOOK: Duration = Duration::from_millis(50);
/// Clock ticks of `/proc` in a second: 100 on every Linux there is.
const TICKS: f64 = 100.0;

/// This program with `words`, and with nothing in its environment that would change a plan.
pub(super) fn agentx(words: &[&str]) -> Result<Command, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::Failed(format!("cannot find this program to start it again: {error}")))?;
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("AGENTX_") || name.starts_with("AIPERF_") {
            command.env_remove(&*name);
        }
    }
    Ok(command)
}

/// The simulated server in a process of its own; killed when dropped.
pub(super) struct Server {
    child: Child,
    pub(super) port: u16,
}

impl Server {
    /// Starts it and waits until it listens.
    pub(super) fn start(words: &[&str]) -> Result<Self, Failure> {
        let failed = |what: String| {
            Failure::Failed(format!(
                "the simulated server did not start: {what}; `agentx mock-server` alone should print its port"
            ))
        };
        let mut child = agentx(&["mock-server"])?
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let mut line = String::new();
        let said = match child.stdout.take() {
            Some(out) => BufReader::new(out).read_line(&mut line).map_err(|error| error.to_string()),
            None => Ok(0),
        };
        let mut server = Self { child, port: 0 };
        said.map_err(failed)?;
        let port = line.trim().rsplit(' ').next().and_then(|port| port.parse().ok());
        server.port = port.ok_or_else(|| failed(format!("it said `{}` in place of its port", line.trim())))?;
        Ok(server)
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself: nothing else can go wrong.
        self.child.kill().unwrap_or_default();
        drop(self.child.wait());
    }
}

/// Processor time of a process by wall time; and its memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    /// (Unix epoch ns, seconds of user and system time since the process began)
    samples: Vec<(i64, f64)>,
    /// Most resident memory, MB (10⁶ bytes).
    pub(super) peak_mb: Option<f64>,
}

impl Usage {
    /// Looks at the process; nothing is noted where there is no `/proc`, or the process has ended.
    pub(super) fn look(&mut self, id: u32, clock: RunClock) {
        let folder = PathBuf::from(format!("/proc/{id}"));
        if let Some(cpu) = cpu_seconds(&folder) {
            self.samples.push((clock.wall_ns(clock.now()), cpu));
        }
        if let Some(peak) = peak_mb(&folder) {
            self.peak_mb = Some(peak);
        }
    }

    /// Processor seconds between two instants (Unix epoch ns); nothing if the samples do not reach that far.
    pub(super) fn between(&self, start_ns: i64, end_ns: i64) -> Option<f64> {
        Some(self.at(end_ns)? - self.at(start_ns)?)
    }

    /// Between two looks it is taken to have grown evenly.
    fn at(&self, ns: i64) -> Option<f64> {
        let after = self.samples.iter().position(|(at, _)| *at >= ns)?;
        let (end, used) = self.samples[after];
        let Some((start, before)) = after.checked_sub(1).map(|index| self.samples[index]) else {
            return (end == ns).then_some(used);
        };
        Some(before + (used - before) * (ns - start) as f64 / (end - start).max(1) as f64)
    }
}

/// Field 14 and 15 of `stat`: the name in field 2 may hold blanks and brackets.
fn cpu_seconds(folder: &Path) -> Option<f64> {
    let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS)
}

fn peak_mb(folder: &Path) -> Option<f64> {
    let status = std::fs::read_to_string(folder.join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024.0 / 1e6)
}

/// Waits for a client to end and watches it and the server meanwhile: both usages, and whether it ended well.
pub(super) fn watch(mut client: Child, server: &Server, clock: RunClock) -> Result<(Usage, Usage, bool), Failure> {
    let (mut of_client, mut of_server) = (Usage::default(), Usage::default());
    loop {
        of_client.look(client.id(), clock);
        of_server.look(server.id(), clock);
        let ended = client.try_wait().map_err(|error| Failure::Failed(format!("a run was lost: {error}")))?;
        if let Some(status) = ended {
            return Ok((of_client, of_server, status.success()));
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_between_two_instants_is_interpolated_and_never_guessed() {
        let usage = Usage { samples: vec![(100, 1.0), (200, 3.0), (300, 3.5)], peak_mb: None };
        assert_eq!(usage.between(150, 300), Some(1.5));
        assert_eq!(usage.between(100, 200), Some(2.0));
        assert_eq!(usage.between(99, 200), None);
        assert_eq!(usage.between(150, 301), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_used_something() {
        let mut usage = Usage::default();
        usage.look(std::process::id(), RunClock::start());
        assert_eq!(usage.samples.len(), 1);
        assert!(usage.peak_mb.is_some_and(|mb| mb > 1.0));
        usage.look(u32::MAX, RunClock::start());
        assert_eq!(usage.samples.len(), 1, "no such process");
    }
}
