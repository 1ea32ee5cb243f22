//! Why a command failed, as its user reads it.

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
            Self::Plan(failure) => out::err(failure.text().trim_end()),
            Self::Usage(text) | Self::Failed(text) => out::err(&format!("error: {text}")),
            Self::BrokenPipe => {}
        }
    }

    /// A failure that only has a text.
    pub(crate) fn of(error: impl std::fmt::Display) -> Self {
        Self::Failed(error.to_string())
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
