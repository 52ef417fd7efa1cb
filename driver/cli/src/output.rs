// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines for people.
use std::io::{IsTerminal, Write};

/// Green or red, where the terminal shows colours.
pub fn mark(good: bool) -> &'static str {
    let colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    match (good, colours) {
        (true, true) => "\x1b[32mok  \x1b[0m",
        (false, true) => "\x1b[31mFAIL\x1b[0m",
        (true, false) => "ok  ",
        (false, false) => "FAIL",
    }
}

/// A line that appears at once, also in a pipe.
pub fn line(text: impl AsRef<str>) {
    let mut out = std::io::stdout().lock();
    // nobody reads any more: nothing to tell
    let _ = writeln!(out, "{}", text.as_ref()).and_then(|()| out.flush());
}
