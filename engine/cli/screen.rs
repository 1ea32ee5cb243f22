//! The terminal while the dashboard has it: who takes it, gives it back, and where lines meant for stderr go meanwhile.
//!
//! Ctrl+C stays a signal: the terminal keeps its signal keys, only echo and line editing are off.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, Once, PoisonError, TryLockError};
use std::time::Duration;

use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use rustix::termios::{self, InputModes, LocalModes, OptionalActions, QueueSelector, Termios};

/// Lines kept for the panel and for the screen after the run.
const KEPT: usize = 200;

/// Lines written while the screen is taken; none while it is not. Held for moments only: the run logs through it.
static LINES: Mutex<Option<VecDeque<String>>> = Mutex::new(None);

/// The modes to give back; held while the terminal is written to, which may take long.
static TAKEN: Mutex<Option<Termios>> = Mutex::new(None);

thread_local! {
    static HIDDEN: Cell<bool> = const { Cell::new(false) };
}

/// Takes the screen; false when there is none, or this process is not in its foreground.
pub(crate) fn take() -> bool {
    static HOOK: Once = Once::new();
    let stderr = io::stderr();
    if !stderr.is_terminal() || std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb") {
        return false;
    }
    // A background process would be stopped for changing the terminal.
    if termios::tcgetpgrp(&stderr).ok() != Some(rustix::process::getpgrp()) {
        return false;
    }
    let Ok(before) = termios::tcgetattr(&stderr) else { return false };
    let mut modes = before.clone();
    modes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
    modes.input_modes.remove(InputModes::IXON);
    HOOK.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave();
            report(panic);
        }));
    });
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if termios::tcsetattr(&stderr, OptionalActions::Now, &modes).is_err() {
        return false;
    }
    *taken = Some(before);
    *LINES.lock().unwrap_or_else(PoisonError::into_inner) = Some(VecDeque::new());
    // A terminal that cannot be written to shows nothing, which hurts nobody.
    execute!(stderr.lock(), EnterAlternateScreen, Hide).unwrap_or_default();
    true
}

/// Gives the screen back and prints what should not be lost with it. Does nothing when the screen is not taken.
pub(crate) fn leave() {
    const TRIES: u32 = 50;
    const PAUSE: Duration = Duration::from_millis(10);
    for left in (0..TRIES).rev() {
        let before = match TAKEN.try_lock() {
            Ok(mut taken) => taken.take(),
            Err(TryLockError::Poisoned(taken)) => taken.into_inner().take(),
            Err(TryLockError::WouldBlock) if left > 0 => {
                std::thread::sleep(PAUSE);
                continue;
            }
            // The terminal does not take what is written: nothing can be restored.
            Err(TryLockError::WouldBlock) => {
                LINES.lock().unwrap_or_else(PoisonError::into_inner).take();
                return;
            }
        };
        if let Some(before) = before {
            restore(&before);
        }
        return;
    }
}

fn restore(before: &Termios) {
    let stderr = io::stderr();
    execute!(stderr.lock(), LeaveAlternateScreen, Show).unwrap_or_default();
    // What was typed at the dashboard is not meant for the shell.
    termios::tcflush(&stderr, QueueSelector::IFlush).unwrap_or_default();
    termios::tcsetattr(&stderr, OptionalActions::Now, before).unwrap_or_default();
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner).take();
    let mut stderr = stderr.lock();
    for line in lines.into_iter().flatten().filter(|line| matters(line)) {
        writeln!(stderr, "{line}").unwrap_or_default();
    }
}

/// Whether a line is printed again once the dashboard is gone: warnings, errors, and what is no log line.
fn matters(line: &str) -> bool {
    !matches!(line.split_whitespace().nth(1), Some("INFO" | "DEBUG" | "TRACE"))
}

/// Whether the screen is taken.
pub(crate) fn is_taken() -> bool {
    LINES.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

/// Keeps `text` for the log panel; false when the screen is not taken, and the caller writes it.
pub(crate) fn keep(text: &str) -> bool {
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(lines) = lines.as_mut() else { return false };
    if HIDDEN.get() {
        return true;
    }
    for line in text.lines() {
        if lines.len() >= KEPT {
            lines.pop_front();
        }
        lines.push_back(line.chars().filter(|c| !c.is_control() || *c == '\t').collect());
    }
    true
}

/// Runs `log` with its lines kept off the panel, for what the dashboard shows anyway.
pub(crate) fn off_panel(log: impl FnOnce()) {
    HIDDEN.set(true);
    log();
    HIDDEN.set(false);
}

/// The newest lines, oldest first.
pub(crate) fn newest(count: usize) -> Vec<String> {
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    lines
        .as_ref()
        .map_or_else(Vec::new, |lines| lines.iter().skip(lines.len().saturating_sub(count)).cloned().collect())
}

/// Collects a frame and writes it whole, unless the screen has been given back meanwhile.
#[derive(Default)]
pub(crate) struct Canvas(Vec<u8>);

impl Write for Canvas {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let frame = std::mem::take(&mut self.0);
        let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.is_some() {
            let mut stderr = io::stderr().lock();
            stderr.write_all(&frame)?;
            stderr.flush()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_and_words_outlive_the_dashboard() {
        assert!(!matters("12:00:00.000Z  INFO phase"));
        assert!(matters("12:00:00.000Z  WARN phase"));
        assert!(matters("ending the run: requests in flight are cancelled"));
        assert!(!keep("nobody has the screen"));
    }
}
