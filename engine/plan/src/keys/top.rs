//! Keys at the top of a plan.

use super::kind::Kind;
use super::spec::KeySpec;

pub(super) const KEYS: &[KeySpec] = &[
    KeySpec::new("agentx", Kind::Int { min: 1, max: 1 }, "Version of the plan format; required in every plan file."),
    KeySpec::new(
        "extends",
        Kind::Texts,
        "Files below this one, relative to this file, applied left to right. Not a value of the plan: read before merging.",
    ),
    KeySpec::new(
        "scenario",
        Kind::Text,
        "The locked preset, `name@version`; a bare name takes the newest bundled version. Without it: no locks, no run-time checks, no stamp.",
    )
    .flags("--scenario"),
    KeySpec::new(
        "unsafe_override",
        Kind::Bool,
        "Turns violations of the scenario into warnings and stamps the result invalid. A missing corpus stays an error.",
    )
    .default("false")
    .flags("--unsafe-override"),
    KeySpec::new("title", Kind::Text, "Free text, copied to the result."),
];
