//! Distributions of published coding-agent corpora, as quantiles.

use super::draws::Table;

/// Main turns of a session, as a share of the median.
pub(super) const TURNS: &Table =
    &[(0.0, 0.07), (0.1, 0.11), (0.25, 0.35), (0.5, 1.0), (0.75, 2.4), (0.9, 5.0), (0.97, 7.0), (1.0, 10.0)];
/// Tokens of the tools and the system prompt.
pub(super) const TOOLS: &Table = &[(0.0, 7650.0), (0.2, 8300.0), (0.5, 11_900.0), (0.8, 12_440.0), (1.0, 13_200.0)];
pub(super) const SYSTEM: &Table = &[(0.0, 780.0), (0.2, 1900.0), (0.5, 2880.0), (0.8, 3150.0), (1.0, 5000.0)];
/// Tokens of what the user brings along at first: files named, instructions, memory.
pub(super) const OPENING: &Table = &[(0.0, 120.0), (0.3, 900.0), (0.6, 2400.0), (0.85, 6000.0), (1.0, 18_000.0)];
/// The same of a session that goes on from an earlier one.
pub(super) const RESUMED: &Table = &[(0.0, 50_000.0), (0.5, 95_000.0), (0.8, 150_000.0), (1.0, 280_000.0)];
/// Output tokens of a turn.
pub(super) const OUTPUT: &Table = &[
    (0.0, 1.0),
    (0.05, 70.0),
    (0.25, 147.0),
    (0.5, 238.0),
    (0.75, 431.0),
    (0.9, 834.0),
    (0.96, 1700.0),
    (0.99, 4070.0),
    (1.0, 9800.0),
];
/// Tokens of a summary when the context is compacted.
pub(super) const SUMMARY: &Table = &[(0.0, 1500.0), (0.5, 2800.0), (1.0, 6000.0)];
/// Tokens that a tool's result adds.
pub(super) const RESULT: &Table = &[
    (0.0, 30.0),
    (0.2, 130.0),
    (0.4, 420.0),
    (0.6, 1100.0),
    (0.8, 3300.0),
    (0.95, 9000.0),
    (0.99, 16_000.0),
    (1.0, 24_000.0),
];
/// Seconds a tool takes.
pub(super) const TOOL_PAUSE: &Table =
    &[(0.0, 0.3), (0.1, 2.6), (0.3, 5.2), (0.55, 8.5), (0.8, 16.0), (0.93, 38.0), (0.99, 90.0), (1.0, 300.0)];
/// Seconds a person reads, thinks and writes.
pub(super) const THINK: &Table =
    &[(0.0, 4.0), (0.2, 25.0), (0.5, 80.0), (0.75, 260.0), (0.9, 1100.0), (0.98, 3600.0), (1.0, 9000.0)];
/// Seconds of a break: lunch, night, weekend.
pub(super) const BREAK: &Table = &[(0.0, 1800.0), (0.5, 9000.0), (0.8, 48_000.0), (1.0, 72_000.0)];
/// Requests of a subagent.
pub(super) const AGENT_TURNS: &Table = &[(0.0, 2.0), (0.2, 6.0), (0.5, 11.0), (0.8, 15.0), (0.95, 24.0), (1.0, 60.0)];
/// Requests of a helper that was recorded as plain rows.
pub(super) const WORKER_TURNS: &Table = &[(0.0, 2.0), (0.5, 7.0), (0.9, 25.0), (1.0, 60.0)];
/// Requests of a helper that goes on from the main agent's context.
pub(super) const FORK_TURNS: &Table = &[(0.0, 3.0), (0.3, 12.0), (0.6, 35.0), (0.9, 90.0), (1.0, 200.0)];
/// Tokens of the task a helper is given.
pub(super) const TASK: &Table = &[(0.0, 150.0), (0.5, 600.0), (0.9, 2000.0), (1.0, 5000.0)];
/// Seconds between the start of an answer and its first token, and seconds a token takes.
pub(super) const FIRST_TOKEN: &Table = &[(0.0, 0.7), (0.5, 1.6), (0.9, 4.0), (1.0, 12.0)];
pub(super) const TOKEN: &Table = &[(0.0, 0.009), (0.5, 0.014), (1.0, 0.024)];
