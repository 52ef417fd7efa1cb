// SPDX-License-Identifier: MIT OR Apache-2.0
//! `xtask mutants`: are a block's own tests able to see that the block is broken?
//!
//! yosys makes one netlist that holds all mutants (a pin of a cell inverted or stuck), each switched on by a value of the added input
//! `mutsel`. Its conditional inversions are left out: on the wide gates that fill a netlist most of them change nothing (an input of
//! an OR, inverted while another is 1). The model is built once and the block's tests run once per mutant with `IRONWARP_MUTANT=k`; a failure or a
//! hang kills it. Value 0 is the block as it is and must pass. Survivors are listed with cell and wire; `tests/mutants.tsv` explains
//! those that no test can see (block, wire, reason).
use crate::{
    netlist::package_of,
    tools::{self, fail, Error, Result},
};
use ironwarp_hdl::elaborate::Emitted;
use std::{
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

/// Least share of mutants that must be killed, in percent.
const PASS_PERCENT: usize = 80;
/// Kinds of mutation.
const MODES: &[&str] = &["inv", "const0", "const1"];
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
    /// Another test of the block's package than the one called like the block
    #[arg(long)]
    test: Option<String>,
    /// Write docs/reports/mutants-BLOCK-DATE.md (else build/mutants/BLOCK.md)
    #[arg(long)]
    report: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Killed,
    Hung,
    Survived,
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

/// Runs all blocks; an error when one falls short.
pub fn run(options: &Options) -> Result {
    let notes = tools::read(&tools::root().join("tests/mutants.tsv"))?;
    let mut short = vec![];
    for block in tools::emit(&options.blocks)? {
        let (mutants, fates, seconds) = block_run(&block, options)?;
        let killed = fates.iter().filter(|f| **f != Fate::Survived).count();
        println!("mutants: {}: {killed} of {} killed, {seconds} s", block.name, mutants.len());
        let text = report(block.name, options, &mutants, &fates, &notes);
        let path = if options.report {
            tools::root().join(format!("docs/reports/mutants-{}-{}.md", block.name, tools::today()))
        } else {
            tools::build_dir("mutants")?.join(format!("{}.md", block.name))
        };
        tools::write(&path, text)?;
        for (m, _) in mutants.iter().zip(&fates).filter(|(_, f)| **f == Fate::Survived) {
            let why = explanation(&notes, block.name, m).unwrap_or("unexplained");
            println!("mutants: {}: {} survived: {} {} {} wire {}: {why}", block.name, m.number, m.mode, m.cell, m.port, m.wire);
        }
        if killed * 100 < mutants.len() * PASS_PERCENT {
            short.push(block.name);
        }
    }
    if short.is_empty() {
        Ok(())
    } else {
        fail(format!("fewer than {PASS_PERCENT} % of the mutants killed: {}", short.join(", ")))
    }
}

fn block_run(block: &Emitted, options: &Options) -> Result<(Vec<Mutant>, Vec<Fate>, u64)> {
    let begin = Instant::now();
    let test = options.test.as_deref().unwrap_or(block.name);
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
    // generous, because two runs share the machine with whatever else runs
    let limit = started.elapsed() * 6 + Duration::from_secs(10);
    let fates = tools::in_pairs(&mutants, |m| run_test(&binary, m.number, limit));
    Ok((mutants, fates.into_iter().collect::<Result<_>>()?, begin.elapsed().as_secs()))
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
        .filter(|l| MODES.iter().any(|m| l.starts_with(&format!("mutate -mode {m} "))))
        .take(options.count as usize)
        .enumerate()
        .map(|(i, l)| (i + 1, l))
        .collect();
    if chosen.is_empty() {
        return fail(format!("{}: yosys found nothing to mutate", block.name));
    }
    let commands = chosen.iter().fold(String::new(), |s, (i, l)| s + &format!("{l} -ctrl mutsel {SELECT_BITS} {i}\n"));
    tools::write(&dir.join("mutate.ys"), commands)?;
    yosys(block, &format!("{prepare}; script mutate.ys; splitnets -driver; write_verilog -noattr {}.v", block.name), dir)?;
    Ok(chosen.into_iter().map(|(i, l)| Mutant::parse(i, l)).collect())
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
        .filter_map(|l| serde_json::from_str::<serde_json::Value>(l).ok())
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

/// Runs the test with a mutant switched on, until it ends, a first case fails, or `limit` is over.
fn run_test(binary: &Path, mutant: usize, limit: Duration) -> Result<Fate> {
    let shown = |e| Error(format!("{}: {e}", binary.display()));
    let mut child = Command::new(binary)
        .args(["--quiet", "--test-threads=1"])
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
    let fate = match failed.recv_timeout(limit) {
        Ok(true) => Fate::Killed,
        Ok(false) if child.wait().map_err(shown)?.success() => Fate::Survived,
        Ok(false) => Fate::Killed,
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

fn report(block: &str, options: &Options, mutants: &[Mutant], fates: &[Fate], notes: &str) -> String {
    let count = |f| fates.iter().filter(|x| **x == f).count();
    let survived = count(Fate::Survived);
    let mut out = format!(
        "<!-- SPDX-License-Identifier: MIT OR Apache-2.0 -->\n# Mutants of `{block}`, {}\n\n\
         `cargo xtask mutants --count {} --seed {}{} {block}`: {} mutants, {} killed by a failing test, {} by a hang, {survived} survived: {} % killed.\n\n",
        tools::today(),
        options.count,
        options.seed,
        options.test.as_ref().map_or(String::new(), |t| format!(" --test {t}")),
        mutants.len(),
        count(Fate::Killed),
        count(Fate::Hung),
        (mutants.len() - survived) * 100 / mutants.len(),
    );
    out += "Mode: `inv` inverted, `const0`/`const1` stuck. Mutants are chosen by yosys, evenly over cells and wires.\n";
    if survived > 0 {
        out += "\n## Survivors\n| mutant | mode | cell | port | wire | why |\n|---|---|---|---|---|---|\n";
        for (m, _) in mutants.iter().zip(fates).filter(|(_, f)| **f == Fate::Survived) {
            let why = explanation(notes, block, m).unwrap_or("unexplained");
            writeln!(out, "| {} | {} | `{}` | {} | `{}` | {why} |", m.number, m.mode, m.cell, m.port, m.wire).expect("String");
        }
    }
    out += "\n## All\n| mutant | mode | port | wire | fate |\n|---|---|---|---|---|\n";
    for (m, fate) in mutants.iter().zip(fates) {
        let fate = match fate {
            Fate::Killed => "killed",
            Fate::Hung => "hung",
            Fate::Survived => "survived",
        };
        writeln!(out, "| {} | {} | {} | `{}` | {fate} |", m.number, m.mode, m.port, m.wire).expect("String");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_is_read() {
        let line = "mutate -mode inv -module \\top -cell $add$a.v:3$1 -port \\Y -portbit 2 -wire \\sum -wirebit 2 -src a.v:3";
        let m = Mutant::parse(3, line);
        assert_eq!((m.mode.as_str(), m.cell.as_str(), m.port.as_str(), m.wire.as_str()), ("inv", "$add$a.v:3$1", "Y[2]", "sum[2]"));
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
