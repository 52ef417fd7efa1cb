// SPDX-License-Identifier: MIT OR Apache-2.0
//! `xtask lint`: does the emitted Verilog mean what the Rust text says, and do all tools read it alike?
//!
//! For every block of the catalog: our lint over the elaborated block, `iverilog`, `verilator --lint-only -Wall`, and yosys for
//! latches, loops and what is driven twice or never. A block that passed is not looked at again until its Verilog, a waiver or a tool
//! changes (`build/lint`). Beside that every source file carries its licence line, and none has a left-over mark.
use crate::tools::{self, fail, Error, Result};
use ironwarp_hdl::{elaborate::Emitted, lint};
use std::{fs, path::Path, process::Command};

/// Warnings that no waiver may silence: each is a fault of the design.
const NEVER_WAIVED: &[&str] = &["LATCH", "MULTIDRIVEN", "PINMISSING", "IMPLICIT", "SELRANGE"];

/// What yosys must find: no latch, and a clean `check` (loops, conflicting drivers, undriven wires).
const YOSYS_SCRIPT: &str = "hierarchy -check -top {top}; proc; opt_clean; flatten; opt_clean; check -assert";

/// Runs every gate on the blocks `names` (all when empty).
pub fn run(names: &[String]) -> Result {
    let sources = crate::sources::check()?;
    let blocks = tools::emit(names)?;
    let mut problems = sources;
    let hits: Vec<_> = blocks.iter().flat_map(|b| b.lint.iter().cloned()).collect();
    problems.extend(lint::unexplained(&hits).map(|h| format!("hdl lint: {h}")));
    if names.is_empty() {
        problems.extend(lint::unused_waivers(&hits).map(|w| format!("hdl/lint-waivers.tsv: this row explains no hit: {w}")));
    }
    let waivers = tools::root().join("tools/lint/verilator.vlt");
    let vlt = tools::read(&waivers)?;
    problems.extend(NEVER_WAIVED.iter().filter(|r| vlt.contains(&format!("-rule {r}"))).map(|r| format!("verilator.vlt waives {r}")));
    let versions = [
        tools::version(Path::new("verilator"), "--version")?,
        tools::version(Path::new("iverilog"), "-V")?,
        tools::version(&tools::yosys(), "-V")?,
    ]
    .join("\n");
    let dir = tools::build_dir("lint")?;
    let results = tools::in_pairs(&blocks, |b| block(b, &dir, &waivers, &[&vlt, &versions, YOSYS_SCRIPT]));
    for (b, result) in blocks.iter().zip(results) {
        match result? {
            Outcome::Cached => {}
            Outcome::Clean => println!("lint: {} is clean", b.name),
            Outcome::Problems(p) => problems.extend(p),
        }
    }
    if problems.is_empty() {
        println!("lint: {} blocks clean, {} explained hits", blocks.len(), hits.len());
        return Ok(());
    }
    for p in &problems {
        eprintln!("lint: {p}");
    }
    fail(format!("lint: {} problems", problems.len()))
}

enum Outcome {
    Cached,
    Clean,
    Problems(Vec<String>),
}

fn block(block: &Emitted, dir: &Path, waivers: &Path, recipe: &[&str]) -> Result<Outcome> {
    let name = block.name;
    let key = tools::hash(&[&[block.verilog.as_str()], recipe].concat());
    let passed = dir.join(format!("{name}.passed"));
    if fs::read_to_string(&passed).is_ok_and(|k| k == key) {
        return Ok(Outcome::Cached);
    }
    let file = dir.join(format!("{name}.v"));
    tools::write(&file, &block.verilog)?;
    let path = file.display().to_string();
    let mut problems = vec![];
    let (ok, text) = tools::run(Path::new("iverilog"), &["-g2005", "-t", "null", &path], dir, 300)?;
    if !ok || !text.trim().is_empty() {
        problems.push(format!("{name}: iverilog:\n{text}"));
    }
    let vlt = waivers.display().to_string();
    let (ok, text) = tools::run(Path::new("verilator"), &["--lint-only", "-Wall", "--top-module", name, &vlt, &path], dir, 600)?;
    if !ok || text.contains("%Warning") {
        problems.push(format!("{name}: verilator:\n{text}"));
    }
    let script = format!("read_verilog {name}.v; {}", YOSYS_SCRIPT.replace("{top}", name));
    let (ok, text) = tools::run(&tools::yosys(), &["-p", &script], dir, 600)?;
    tools::write(&dir.join(format!("{name}.yosys.log")), &text)?;
    for line in text.lines().filter(|l| l.contains("Latch inferred") && !l.contains("No latch inferred")) {
        problems.push(format!("{name}: yosys: {line}"));
    }
    if !ok {
        let shown: Vec<_> = text.lines().filter(|l| l.contains("ERROR") || l.starts_with("Warning")).collect();
        problems.push(format!("{name}: yosys:\n{}", shown.join("\n")));
    }
    if problems.is_empty() {
        tools::write(&passed, key)?;
        Ok(Outcome::Clean)
    } else {
        Ok(Outcome::Problems(problems))
    }
}

/// Files that git knows or would add, from the root of the workspace.
pub fn tracked() -> Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(tools::root())
        .output()
        .map_err(|e| Error(format!("git: {e}")))?;
    if !output.status.success() {
        return fail("git ls-files failed; the licence check needs the git work tree");
    }
    // git lists untracked files after the others: what is made from this list must not change when a file is committed
    let mut files: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    files.sort_unstable();
    files.dedup();
    Ok(files)
}
