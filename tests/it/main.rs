//! Tests of the `agentx` binary, as a user runs it.

mod verify;
