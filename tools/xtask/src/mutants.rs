// SPDX-License-Identifier: MIT OR Apache-2.0
//! `xtask mutants`: are a block's own tests able to see that the block is broken?
//!
//! yosys makes one netlist that holds all mutants (a pin of a cell inverted or stuck), each switched on by a value of the added input
//! `mutsel`. Its conditional inversions are left out: on the wide gates that fill a netlist most of them change nothing (an input of
//! an OR, inverted while another is 1). The model is built once and the block's tests run once per mutant with `IRONWARP_MUTANT=k`; a failure or a
//! hang kills it. Value 0 is the block as it is and must pass.
//!
//! Some mutants change nothing: a constant pin stuck at its value, a bit of the state where the state is known, an input of a multiplexer that is
//! not chosen then. A survivor goes to [`equal`], which lets a SAT solver prove that no register, memory or output can ever get another
//! value; one proved so is no mutant and does not count. What is left is listed with cell and wire; `tests/mutants.tsv` explains those
//! that no test can see (block, wire, reason).
use crate::{
    netlist::package_of,
    tools::{self, fail, Error, Result},
};
use ironwarp_hdl::elaborate::Emitted;
use serde_json::{json, Value as Json};
use std::{
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

/// Least share of mutants that must be killed, in percent.
const PASS_PERCENT: usize = 80;
/// How long a survivor may take to be proved equal; one that takes longer is not.
const PROOF_SECONDS: u32 = 30;
/// Kinds of mutation.
const MODES: &[&str] = &["inv", "const0", "const1"];
/// A port that is not mutated: these netlists read memories without a clock, the register comes behind, and of such a port yosys demands that
/// its enable is a constant 1; else it dies (`Assert port.en == State::S1`).
const KEPT_PORT: &str = "RD_EN[";
/// What ends a process that has used the processor for too long.
const SIGXCPU: i32 = 24;
const SIGKILL: i32 = 9;
/// Width of `mutsel`.
const SELECT_BITS: u32 = 16;

/// How a run is done.
#[derive(clap::Args)]
pub struct Options {
    /// Blocks of the catalog
    #[arg(required = true)]
    blocks: Vec<String>,
    /// Mutants a block
    #[arg(long, default_value_t = 40)]
    count: u32,
    /// Seed of the choice of mutants
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Another test of the block's package than the one called like the block, or like the block whose small size it is
    #[arg(long)]
    test: Option<String>,
    /// Tests that run at a time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Write docs/reports/mutants-DATE.md (else build/mutants/report.md)
    #[arg(long)]
    report: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Killed,
    Hung,
    Survived,
    /// Survived, and is the block itself.
    Equal,
}

impl Fate {
    fn name(self) -> &'static str {
        match self {
            Fate::Killed => "killed",
            Fate::Hung => "hung",
            Fate::Survived => "survived",
            Fate::Equal => "equal",
        }
    }
}

/// One mutation as yosys listed it.
struct Mutant {
    number: usize,
    mode: String,
    cell: String,
    port: String,
    wire: String,
}

impl Mutant {
    fn parse(number: usize, line: &str) -> Self {
        let words: Vec<_> = line.split_whitespace().collect();
        let get = |key: &str| {
            let at = words.iter().position(|w| *w == key);
            at.and_then(|i| words.get(i + 1)).map_or(String::new(), |w| w.trim_start_matches('\\').to_owned())
        };
        let bit = |name: &str, bit: String| if bit.is_empty() { name.to_owned() } else { format!("{name}[{bit}]") };
        Mutant {
            number,
            mode: get("-mode"),
            cell: get("-cell"),
            port: bit(&get("-port"), get("-portbit")),
            wire: bit(&get("-wire"), get("-wirebit")),
        }
    }
}

/// What came of one block.
struct Outcome {
    block: &'static str,
    mutants: Vec<(Mutant, Fate)>,
    seconds: u64,
}

impl Outcome {
    fn count(&self, fate: Fate) -> usize {
        self.mutants.iter().filter(|(_, f)| *f == fate).count()
    }

    fn killed(&self) -> usize {
        self.count(Fate::Killed) + self.count(Fate::Hung)
    }

    /// Those that change something.
    fn real(&self) -> usize {
        self.mutants.len() - self.count(Fate::Equal)
    }

    fn survivors(&self) -> impl Iterator<Item = &Mutant> {
        self.mutants.iter().filter(|(_, f)| *f == Fate::Survived).map(|(m, _)| m)
    }
}

/// Runs all blocks; an error when one falls short.
pub fn run(options: &Options) -> Result {
    let notes = tools::read(&tools::root().join("tests/mutants.tsv"))?;
    let mut outcomes = vec![];
    for block in tools::emit(&options.blocks)? {
        let outcome = block_run(&block, options)?;
        println!(
            "mutants: {}: {} of {} killed, {} more proved equal, {} s",
            outcome.block,
            outcome.killed(),
            outcome.real(),
            outcome.count(Fate::Equal),
            outcome.seconds
        );
        for m in outcome.survivors() {
            let why = explanation(&notes, outcome.block, m).unwrap_or("unexplained");
            println!("mutants: {}: {} survived: {} {} {} wire {}: {why}", outcome.block, m.number, m.mode, m.cell, m.port, m.wire);
        }
        outcomes.push(outcome);
    }
    let path = if options.report {
        tools::root().join(format!("docs/reports/mutants-{}.md", tools::today()))
    } else {
        tools::build_dir("mutants")?.join("report.md")
    };
    tools::write(&path, report(options, &outcomes, &notes))?;
    let short: Vec<_> = outcomes.iter().filter(|o| o.killed() * 100 < o.real() * PASS_PERCENT).map(|o| o.block).collect();
    if short.is_empty() {
        Ok(())
    } else {
        fail(format!("fewer than {PASS_PERCENT} % of the mutants killed: {}", short.join(", ")))
    }
}

fn block_run(block: &Emitted, options: &Options) -> Result<Outcome> {
    let begin = Instant::now();
    // a small size of a block is there for the test of the block
    let own = if package_of(block.name).is_some() { block.name } else { block.name.trim_end_matches("_small") };
    let test = options.test.as_deref().unwrap_or(own);
    let Some(package) = package_of(test) else {
        return fail(format!("no test file `{test}.rs`"));
    };
    let dir = tools::build_dir(&format!("mutants/{}", block.name))?;
    let mutants = netlist(block, options, &dir)?;
    let binary = build(package, test, &dir)?;
    let started = Instant::now();
    if run_test(&binary, 0, Duration::from_secs(900))? != Fate::Survived {
        return fail(format!("{}: its tests fail on the netlist with no mutant switched on", block.name));
    }
    let limit = started.elapsed() * 4 + Duration::from_secs(3);
    let fates = tools::in_parallel(options.jobs, &mutants, |m| run_test(&binary, m.number, limit));
    let mut fates = fates.into_iter().collect::<Result<Vec<_>>>()?;
    let survivors: Vec<_> = mutants.iter().zip(&fates).filter(|(_, f)| **f == Fate::Survived).map(|(m, _)| m.number).collect();
    for number in equal(block, &survivors, &dir)? {
        fates[number - 1] = Fate::Equal;
    }
    Ok(Outcome { block: block.name, mutants: mutants.into_iter().zip(fates).collect(), seconds: begin.elapsed().as_secs() })
}

/// Makes `<dir>/<block>.v` with all mutants.
fn netlist(block: &Emitted, options: &Options, dir: &Path) -> Result<Vec<Mutant>> {
    // relative names, because they become parts of cell names in the report
    let source = format!("{}.txt", block.name);
    tools::write(&dir.join(&source), &block.verilog)?;
    let list = dir.join("list.txt");
    let _ = fs::remove_file(&list);
    let prepare = format!("read_verilog {source}; prep -flatten -top {}", block.name);
    // more than are wanted, because some are of modes that are not
    let script = format!("{prepare}; mutate -list {} -seed {} -o list.txt", 4 * options.count, options.seed);
    yosys(block, &script, dir)?;
    let chosen = tools::read(&list)?;
    let chosen: Vec<_> = chosen
        .lines()
        .filter(|l| MODES.iter().any(|m| l.starts_with(&format!("mutate -mode {m} "))) && !Mutant::parse(0, l).port.starts_with(KEPT_PORT))
        .take(options.count as usize)
        .enumerate()
        .map(|(i, l)| (i + 1, l))
        .collect();
    if chosen.is_empty() {
        return fail(format!("{}: yosys found nothing to mutate", block.name));
    }
    let commands = chosen.iter().fold(String::new(), |s, (i, l)| s + &format!("{l} -ctrl mutsel {SELECT_BITS} {i}\n"));
    tools::write(&dir.join("mutate.ys"), commands)?;
    let write = format!("write_json mutants.json; splitnets -driver; write_verilog -noattr -renameprefix n {}.v", block.name);
    yosys(block, &format!("{prepare}; script mutate.ys; {write}"), dir)?;
    Ok(chosen.into_iter().map(|(i, l)| Mutant::parse(i, l)).collect())
}

/// Those of the mutants that are the block itself: two copies of the netlist, one with no mutant and one with this, are cut at registers and
/// memories, so that their contents become inputs and what goes into them outputs, and no input can tell the two apart. Outputs that may be
/// anything (the data of a memory that is not written) are not compared.
fn equal(block: &Emitted, survivors: &[usize], dir: &Path) -> Result<Vec<usize>> {
    if survivors.is_empty() {
        return Ok(vec![]);
    }
    let text = tools::read(&dir.join("mutants.json"))?;
    let mutated: Json = serde_json::from_str(&text).map_err(|e| Error(format!("mutants.json: {e}")))?;
    let Some(broken) = cut(&mutated["modules"][block.name]) else {
        return fail(format!("{}: yosys' netlist is not understood", block.name));
    };
    let whole = unmutated(&broken);
    let both = json!({ "modules": { "whole": whole, "broken": broken } });
    tools::write(&dir.join("both.json"), both.to_string())?;
    let mut script = "read_json both.json\ndelete -port */w:mutsel\ndesign -save both\n".to_owned();
    for number in survivors {
        // with the number a constant, all but one place of the copies is the same and becomes one: then the proof takes a second
        let choose = format!("design -load both\ncd broken\nconnect -set mutsel {SELECT_BITS}'d{number}\ncd");
        let pair = "miter -equiv -flatten -ignore_gold_x whole broken pair\ncd pair\nopt";
        // only with undefined bits modelled does "may be anything" not mean 0
        let proof = format!("sat -timeout {PROOF_SECONDS} -enable_undef -set-def-inputs -prove trigger 0");
        writeln!(script, "{choose}\n{pair}\nlog mutant {number}\n{proof}").expect("String");
    }
    tools::write(&dir.join("equal.ys"), script)?;
    let limit = 120 + PROOF_SECONDS * survivors.len() as u32;
    let (ok, text) = tools::run(&tools::yosys(), &["-s", "equal.ys"], dir, limit)?;
    if !ok {
        return fail(format!("{}: yosys:\n{text}", block.name));
    }
    let mut proved = vec![];
    let mut number = 0;
    for line in text.lines() {
        if let Some(n) = line.strip_prefix("mutant ").and_then(|n| n.parse().ok()) {
            number = n;
        }
        if number != 0 && line.contains("SAT proof finished - no model found: SUCCESS!") {
            proved.push(number);
            number = 0;
        }
    }
    Ok(proved)
}

/// A module of yosys' JSON without its registers and memories: what they put out is an input, what goes into them an output.
fn cut(module: &Json) -> Option<Json> {
    let mut ports = module["ports"].as_object()?.clone();
    let mut cells = module["cells"].as_object()?.clone();
    let mut names = 0..;
    for cell in cells.values().filter(|c| is_state(c)) {
        for (port, bits) in cell["connections"].as_object()? {
            let direction = if cell["port_directions"][port] == "output" { "input" } else { "output" };
            ports.insert(format!("cut{}", names.next()?), json!({ "direction": direction, "bits": bits }));
        }
    }
    cells.retain(|_, c| !is_state(c) && c["type"] != "$scopeinfo");
    Some(json!({ "ports": ports, "cells": cells }))
}

fn is_state(cell: &Json) -> bool {
    cell["type"].as_str().is_some_and(|t| t.starts_with("$mem") || t.contains("dff"))
}

/// The same module with its input `mutsel` not connected and 0 instead.
fn unmutated(module: &Json) -> Json {
    let mut module = module.clone();
    let select = module["ports"]["mutsel"]["bits"].as_array().cloned().unwrap_or_default();
    let pins = module["cells"].as_object_mut().into_iter().flat_map(|cells| cells.values_mut());
    for bits in pins.filter_map(|c| c["connections"].as_object_mut()).flat_map(|c| c.values_mut()).filter_map(Json::as_array_mut) {
        for bit in bits.iter_mut().filter(|b| select.contains(b)) {
            *bit = json!("0");
        }
    }
    module
}

fn yosys(block: &Emitted, script: &str, dir: &Path) -> Result {
    let (ok, text) = tools::run(&tools::yosys(), &["-q", "-p", script], dir, 900)?;
    if ok {
        Ok(())
    } else {
        fail(format!("{}: yosys:\n{text}", block.name))
    }
}

/// Builds the test on the netlist in `dir` and tells its path.
fn build(package: &str, test: &str, dir: &Path) -> Result<PathBuf> {
    let output = Command::new("cargo")
        .args(["test", "--no-run", "--message-format=json-render-diagnostics", "--package", package, "--test", test])
        .env("IRONWARP_NETLISTS", dir)
        .current_dir(tools::root())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| Error(format!("cargo: {e}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let binary = text
        .lines()
        .filter_map(|l| serde_json::from_str::<Json>(l).ok())
        .filter(|m| m["target"]["name"] == test)
        .find_map(|m| m["executable"].as_str().map(PathBuf::from));
    match binary {
        Some(built) if output.status.success() => {
            // a copy, because the next cargo command may replace the original
            let copy = dir.join("test");
            fs::copy(&built, &copy).map_err(|e| Error(format!("{}: {e}", built.display())))?;
            Ok(copy)
        }
        _ => fail(format!("cargo test --no-run --package {package} --test {test} failed")),
    }
}

/// Runs the test with a mutant switched on, until it ends, a first case fails, or it has used the processor for `limit`. A test that waits for something
/// else for ever ends after ten times that; less would take a busy machine for a hang.
fn run_test(binary: &Path, mutant: usize, limit: Duration) -> Result<Fate> {
    let shown = |e| Error(format!("{}: {e}", binary.display()));
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -t \"$1\"; exec \"$0\" --quiet --test-threads=1"])
        .arg(binary)
        .arg(limit.as_secs().to_string())
        .env("IRONWARP_MUTANT", mutant.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(shown)?;
    let (send, failed) = mpsc::channel();
    let output = child.stdout.take();
    // ends with the child, whose end closes the pipe
    let reader = std::thread::spawn(move || {
        let lines = output.map(BufReader::new).into_iter().flat_map(|o| o.lines());
        let one_failed = lines.map_while(std::result::Result::ok).any(|line| line.contains("FAILED"));
        // the receiver is gone when the time was over
        let _ = send.send(one_failed);
    });
    let fate = match failed.recv_timeout(limit * 10) {
        Ok(true) => Fate::Killed,
        Ok(false) => match child.wait().map_err(shown)? {
            end if end.success() => Fate::Survived,
            // the soft limit and the hard one are the same, so it is either
            end if matches!(end.signal(), Some(SIGXCPU | SIGKILL)) => Fate::Hung,
            _ => Fate::Killed,
        },
        Err(_) => Fate::Hung,
    };
    // it may have ended by itself
    let _ = child.kill();
    child.wait().map_err(shown)?;
    reader.join().map_err(|_| Error("reader of a test's output".into()))?;
    Ok(fate)
}

/// The reason that `tests/mutants.tsv` gives for a survivor, by its wire (one that ends in `*` stands for all that begin so) or, where
/// yosys names none, by cell and port.
fn explanation<'a>(notes: &'a str, block: &str, mutant: &Mutant) -> Option<&'a str> {
    let (wire, pin) = (&mutant.wire, format!("{} {}", mutant.cell, mutant.port));
    notes.lines().filter(|l| !l.starts_with('#')).find_map(|line| {
        let mut columns = line.split('\t');
        let (b, w, reason) = (columns.next()?, columns.next()?, columns.next()?);
        let same = w == pin || w.strip_suffix('*').map_or(w == wire, |start| wire.starts_with(start));
        (b == block && same).then_some(reason)
    })
}

fn report(options: &Options, outcomes: &[Outcome], notes: &str) -> String {
    let mut out = format!(
        "<!-- SPDX-License-Identifier: MIT OR Apache-2.0 -->\n# Mutants, {}\n\n\
         Each block is broken in one place at a time, and its own tests run: do they see it?\n\n\
         ```\ncargo xtask mutants --count {} --seed {}{} {}\n```\n\n\
         The places are chosen by yosys, evenly over cells and wires: a pin inverted (`inv`) or stuck (`const0`, `const1`). `equal`: survived, and \
         proved to change no register, memory or output in any state, so that it is no mutant and does not count; `hung`: killed, because \
         a test did not end.\n\n\
         | block | mutants | killed | of these hung | survived | killed of all | left out as equal |\n|---|---|---|---|---|---|---|\n",
        tools::today(),
        options.count,
        options.seed,
        options.test.as_ref().map_or(String::new(), |t| format!(" --test {t}")),
        options.blocks.join(" "),
    );
    for o in outcomes {
        let (real, killed) = (o.real(), o.killed());
        let percent = killed * 100 / real.max(1);
        let (hung, survived, equal) = (o.count(Fate::Hung), o.count(Fate::Survived), o.count(Fate::Equal));
        writeln!(out, "| {} | {real} | {killed} | {hung} | {survived} | {percent} % | {equal} |", o.block).expect("String");
    }
    out += "\n## Survivors\nWhy no test sees them: `tests/mutants.tsv`.\n\n| block | mutant | mode | cell and port | wire | why |\n|---|---|---|---|---|---|\n";
    for (o, m) in outcomes.iter().flat_map(|o| o.survivors().map(move |m| (o, m))) {
        let why = explanation(notes, o.block, m).unwrap_or("unexplained");
        writeln!(out, "| {} | {} | {} | `{} {}` | `{}` | {why} |", o.block, m.number, m.mode, m.cell, m.port, m.wire).expect("String");
    }
    for o in outcomes {
        write!(out, "\n## {}\n| mutant | mode | cell and port | wire | fate |\n|---|---|---|---|---|\n", o.block).expect("String");
        for (m, fate) in &o.mutants {
            writeln!(out, "| {} | {} | `{} {}` | `{}` | {} |", m.number, m.mode, m.cell, m.port, m.wire, fate.name()).expect("String");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_line_of_the_list_is_read() {
        let line = "mutate -mode inv -module \\top -cell $add$a.v:3$1 -port \\Y -portbit 2 -wire \\sum -wirebit 2 -src a.v:3";
        let m = Mutant::parse(3, line);
        assert_eq!((m.mode.as_str(), m.cell.as_str(), m.port.as_str(), m.wire.as_str()), ("inv", "$add$a.v:3$1", "Y[2]", "sum[2]"));
    }

    #[test]
    fn registers_are_cut_and_the_whole_copy_has_no_mutant() {
        let module = json!({
            "ports": { "mutsel": { "direction": "input", "bits": [2] }, "y": { "direction": "output", "bits": [3] } },
            "cells": {
                "r": { "type": "$dff", "port_directions": { "D": "input", "Q": "output" }, "connections": { "D": [4], "Q": [3] } },
                "x": { "type": "$xor", "port_directions": { "A": "input", "B": "input", "Y": "output" }, "connections": { "A": [2], "B": [3], "Y": [4] } },
            },
        });
        let broken = cut(&module).expect("well-formed");
        assert_eq!(broken["ports"]["cut0"], json!({ "direction": "output", "bits": [4] }));
        assert_eq!(broken["ports"]["cut1"], json!({ "direction": "input", "bits": [3] }));
        assert_eq!(broken["cells"].as_object().map(|c| c.len()), Some(1));
        let whole = unmutated(&broken);
        assert_eq!(whole["cells"]["x"]["connections"], json!({ "A": ["0"], "B": [3], "Y": [4] }));
        assert_eq!(whole["ports"], broken["ports"]);
    }

    #[test]
    fn a_test_that_does_not_end_is_told_from_one_that_fails() {
        let dir = std::env::temp_dir().join(format!("xtask-mutants-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        for (text, fate) in [
            ("exit 0", Fate::Survived),
            ("exit 1", Fate::Killed),
            ("echo a ... FAILED; exec sleep 60", Fate::Killed),
            ("while :; do :; done", Fate::Hung),
        ] {
            let path = dir.join("test");
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
            assert_eq!(run_test(&path, 0, Duration::from_secs(1)).ok(), Some(fate), "{text}");
        }
        fs::remove_dir_all(&dir).expect("removed");
    }

    #[test]
    fn notes_match_block_and_wire() {
        let notes = "# note\narp\tspare[0]\tnot read\narp\tcnt_*\tcounted elsewhere\narp\t$eq$1 A[2]\tnever so\n";
        let on = |wire: &str| Mutant { number: 1, mode: "inv".into(), cell: "$eq$1".into(), port: "A[3]".into(), wire: wire.into() };
        assert_eq!(explanation(notes, "arp", &on("spare[0]")), Some("not read"));
        assert_eq!(explanation(notes, "arp", &on("cnt_x[1]")), Some("counted elsewhere"));
        assert_eq!(explanation(notes, "icmp", &on("spare[0]")), None);
        assert_eq!(explanation(notes, "arp", &Mutant { port: "A[2]".into(), ..on("") }), Some("never so"));
    }
}
