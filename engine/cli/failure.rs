//! Why a command failed, as its user reads it.

use std::fmt;

use agentx_plan::PlanFailure;

use crate::out;

/// A failed command.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The plan is wrong or breaks its scenario.
    Plan(Box<PlanFailure>),
    /// The command line is wrong: exit status 2.
    Usage(String),
    /// Anything else: exit status 1. What happened, and what to do.
    Failed(String),
    /// A command whose reader is gone (`| head`): nothing to say.
    BrokenPipe,
}

impl Failure {
    /// The process' exit status (`results.md` §14).
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Plan(failure) => failure.exit_code(),
            Self::Usage(_) => 2,
            Self::Failed(_) => 1,
            Self::BrokenPipe => 0,
        }
    }

    /// Says it on stderr.
    pub(crate) fn show(&self) {
        match self {
            Self::Plan(_) => out::err(&self.to_string()),
            Self::Usage(_) | Self::Failed(_) => out::err(&format!("error: {self}")),
            Self::BrokenPipe => {}
        }
    }

    /// A failure that only has a text.
    pub(crate) fn of(error: impl std::fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(failure) => f.write_str(failure.text().trim_end()),
            Self::Usage(text) | Self::Failed(text) => f.write_str(text),
            Self::BrokenPipe => Ok(()),
        }
    }
}

impl From<PlanFailure> for Failure {
    fn from(failure: PlanFailure) -> Self {
        Self::Plan(Box::new(failure))
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::Failed(format!("cannot write the output: {error}")),
        }
    }
}
