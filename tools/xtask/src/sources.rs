// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks over the text of the repository: licence lines, left-over marks, and a loop form that loses its last pass in Verilog.
use crate::{lint::tracked, tools};

/// Endings of files that carry a licence line; others are data, licences or generated.
const SOURCES: &[&str] = &[".rs", ".toml", ".sh", ".v", ".sv", ".vlt", ".py", ".ys", ".lpf", ".c", ".h", ".cpp", ".yml", ".svg"];
const NAMES: &[&str] = &["Makefile", ".ci/run", "README.md", "CONTRIBUTING.md"];
const LICENCE: &str = "SPDX-License-Identifier: MIT OR Apache-2.0";

/// All findings, one text each.
pub fn check() -> tools::Result<Vec<String>> {
    let mut problems = vec![];
    for path in tracked()? {
        let is_source = SOURCES.iter().any(|e| path.ends_with(e)) || NAMES.contains(&path.as_str()) || path.starts_with("docs/");
        // a file that was deleted and not yet committed is still listed
        let Ok(text) = std::fs::read_to_string(tools::root().join(&path)) else { continue };
        if is_source && !text.lines().take(3).any(|l| l.contains(LICENCE)) {
            problems.push(format!("{path}: no `{LICENCE}` in the first three lines"));
        }
        if is_source {
            problems.extend(marks(&text).map(|n| format!("{path}:{n}: a mark of unfinished work")));
        }
        if path.starts_with("hdl/src/") {
            problems.extend(inclusive_loops(&text).map(|n| format!("{path}:{n}: `..=` in hardware loses the last pass in Verilog")));
        }
    }
    Ok(problems)
}

/// Lines with a mark. The words are put together here so that this file has none.
fn marks(text: &str) -> impl Iterator<Item = usize> + '_ {
    const MARKS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")];
    text.lines().enumerate().filter(|(_, l)| MARKS.iter().any(|m| l.contains(m))).map(|(i, _)| i + 1)
}

/// Lines inside a `#[hdl_gen]` function with a loop over an inclusive range (the macro drops the `=`).
fn inclusive_loops(text: &str) -> impl Iterator<Item = usize> + '_ {
    let mut hardware = false;
    text.lines().enumerate().filter_map(move |(i, line)| {
        if line.trim() == "#[hdl_gen]" {
            hardware = true;
        } else if line.starts_with('}') {
            hardware = false;
        }
        (hardware && line.trim_start().starts_with("for ") && line.contains("..=")).then_some(i + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inclusive_loop_in_hardware_is_found() {
        let text = "fn f() {\n    for i in 0..=3 {}\n}\nimpl Logic for A {\n    #[hdl_gen]\n    fn update() {\n        for i in 0..=3 {\n        }\n    }\n}\n";
        assert_eq!(inclusive_loops(text).collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn a_mark_is_found() {
        let text = format!("a\n// {}{} later\n", "TO", "DO");
        assert_eq!(marks(&text).collect::<Vec<_>>(), [2]);
    }
}
