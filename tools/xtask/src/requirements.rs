// SPDX-License-Identifier: MIT OR Apache-2.0
//! `xtask requirements`: which requirement is tested where, made from `tests/requirements.tsv` and the test sources.
//!
//! A test names what it proves in a line `/// Covers: ARP-1, ARP-8` above its `#[test]`; proofs (`.sv`) and test scripts (`.sh`) carry
//! the same line behind their comment mark and count as a whole file.
use crate::{
    lint::tracked,
    tools::{self, fail, Error, Result},
};
use std::{collections::BTreeMap, fmt::Write as _, fs};

const DOCUMENT: &str = "docs/requirements.md";

/// A row of the list.
#[derive(Debug, PartialEq)]
struct Row {
    id: String,
    milestone: String,
    level: String,
    source: String,
    text: String,
    exempt: String,
}

/// Rows, and the milestones whose rows must be tested by now.
fn parse(list: &str) -> Result<(Vec<Row>, Vec<String>)> {
    let (mut rows, mut due) = (Vec::<Row>::new(), vec![]);
    for (n, line) in list.lines().enumerate() {
        if let Some(milestones) = line.strip_prefix("# due:") {
            due = milestones.split_whitespace().map(str::to_owned).collect();
        }
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        let columns: Vec<_> = line.split('\t').map(str::to_owned).collect();
        let Ok([id, milestone, level, source, text, exempt]) = <[String; 6]>::try_from(columns) else {
            return fail(format!("tests/requirements.tsv:{}: not six columns", n + 1));
        };
        if rows.iter().any(|r| r.id == id) {
            return fail(format!("tests/requirements.tsv:{}: {id} stands there twice", n + 1));
        }
        rows.push(Row { id, milestone, level, source, text, exempt });
    }
    Ok((rows, due))
}

/// A test that names requirements.
#[derive(Debug, PartialEq)]
struct Test {
    name: String,
    path: String,
    ids: Vec<String>,
}

/// The tests of one file, and what is wrong with its `Covers` lines.
fn collect(path: &str, text: &str) -> (Vec<Test>, Vec<String>) {
    let (mut tests, mut problems) = (vec![], vec![]);
    let mut ids: Vec<String> = vec![];
    let mut is_test = false;
    let rust = path.ends_with(".rs");
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        let comment = if rust { line.strip_prefix("///") } else { line.strip_prefix("//").or(line.strip_prefix('#')) };
        if let Some(list) = comment.and_then(|c| c.trim().strip_prefix("Covers:")) {
            ids.extend(list.split(',').map(|i| i.trim().trim_end_matches('.').to_owned()));
        } else if rust && line.starts_with("#[") {
            // #[test], or the attribute of a test harness that ends in it
            is_test |= line.contains("test]") || line.contains("test(");
        } else if rust && (line.starts_with("fn ") || line.starts_with("pub fn ")) {
            let name = line.split("fn ").nth(1).and_then(|l| l.split(['(', '<']).next()).unwrap_or_default().to_owned();
            if !ids.is_empty() && is_test {
                tests.push(Test { name, path: path.into(), ids: std::mem::take(&mut ids) });
            } else if !ids.is_empty() {
                problems.push(format!("{path}:{}: `Covers` above `{name}`, which is not a #[test]", n + 1));
                ids.clear();
            }
            is_test = false;
        } else if rust && !line.is_empty() && comment.is_none() && !line.starts_with("//") && !ids.is_empty() {
            problems.push(format!("{path}:{}: `Covers` with no test below it", n + 1));
            ids.clear();
        }
    }
    if !rust && !ids.is_empty() {
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        tests.push(Test { name, path: path.into(), ids });
    }
    (tests, problems)
}

/// Makes the document, or with `check` says whether it is up to date and what is due.
pub fn run(check: bool) -> Result {
    let (rows, due) = parse(&tools::read(&tools::root().join("tests/requirements.tsv"))?)?;
    let (mut tests, mut problems) = (vec![], vec![]);
    for path in tracked()?.into_iter().filter(|p| [".rs", ".sv", ".sh"].iter().any(|e| p.ends_with(e))) {
        // the generator's own examples are no tests of the adapter
        if path.starts_with("tools/xtask/") {
            continue;
        }
        let Ok(text) = fs::read_to_string(tools::root().join(&path)) else { continue };
        let (found, wrong) = collect(&path, &text);
        tests.extend(found);
        problems.extend(wrong);
    }
    let mut by_id: BTreeMap<&str, Vec<&Test>> = BTreeMap::new();
    for test in &tests {
        for id in &test.ids {
            if !rows.iter().any(|r| r.id == *id) {
                problems.push(format!("{}: {} covers `{id}`, which is not in tests/requirements.tsv", test.path, test.name));
            }
            by_id.entry(id).or_default().push(test);
        }
    }
    let open: Vec<_> = rows
        .iter()
        .filter(|r| due.contains(&r.milestone) && r.exempt.is_empty() && !by_id.contains_key(r.id.as_str()))
        .map(|r| r.id.as_str())
        .collect();
    let document = document(&rows, &due, &by_id);
    let path = tools::root().join(DOCUMENT);
    if check {
        if fs::read_to_string(&path).ok().as_deref() != Some(&document) {
            problems.push(format!("{DOCUMENT} is out of date; run `make docs`"));
        }
        if !open.is_empty() {
            problems.push(format!("due and neither tested nor exempt: {}", open.join(", ")));
        }
    } else {
        tools::write(&path, &document)?;
        if !open.is_empty() {
            eprintln!("requirements: due and still open: {}", open.join(", "));
        }
    }
    println!("requirements: {} rows, {} tested by {} tests", rows.len(), by_id.len(), tests.len());
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Error(problems.join("\n")))
    }
}

fn document(rows: &[Row], due: &[String], by_id: &BTreeMap<&str, Vec<&Test>>) -> String {
    const HEADINGS: &[(&str, &str)] = &[
        ("ETH", "Ethernet"),
        ("ARP", "ARP"),
        ("IP", "IPv4"),
        ("ICMP", "ICMP"),
        ("TCP", "TCP"),
        ("MPA", "MPA"),
        ("MRK", "Markers"),
        ("SEG", "Segmentation"),
        ("ENH", "Enhanced MPA start-up (RFC 6581)"),
        ("DDP", "DDP"),
        ("RDM", "RDMAP"),
        ("TD", "Stream teardown"),
        ("CM", "Connection manager"),
        ("PDB", "Port database"),
        ("CH", "Choices that the texts leave open"),
        ("DEF", "Defects that others shipped"),
    ];
    let mut out = String::from(
        "<!-- SPDX-License-Identifier: MIT OR Apache-2.0 -->\n<!-- generated by `cargo xtask requirements`; edit tests/requirements.tsv or the tests -->\n\
         # Requirements and where each is tested\n\n\
         Level: MUST, SHOULD, MAY as in the cited text; `impl` = this project's decision where the text is silent. `tx` is what we send, `rx` what we accept.\n\
         Source: RFC and section; `L:` behaviour seen in Linux (commit or function), `C:` seen on the wire of Linux siw; four-digit numbers are RFCs.\n\n",
    );
    let state = |r: &Row| match by_id.get(r.id.as_str()) {
        Some(_) => 0,
        None if !r.exempt.is_empty() => 2,
        None => 1,
    };
    out += "| series | rows | tested | exempt | not yet |\n|---|---|---|---|---|\n";
    let mut total = [0; 4];
    for (prefix, heading) in HEADINGS {
        let series: Vec<_> = rows.iter().filter(|r| series(&r.id) == *prefix).collect();
        let count = |s| series.iter().filter(|r| state(r) == s).count();
        let counts = [series.len(), count(0), count(2), count(1)];
        total.iter_mut().zip(counts).for_each(|(t, c)| *t += c);
        writeln!(out, "| {heading} | {} | {} | {} | {} |", counts[0], counts[1], counts[2], counts[3]).expect("String");
    }
    writeln!(out, "| all | {} | {} | {} | {} |", total[0], total[1], total[2], total[3]).expect("String");
    writeln!(
        out,
        "\nDue now (a row without test or exemption fails `cargo xtask requirements --check`): milestone {}.",
        if due.is_empty() { "none".into() } else { due.join(", ") }
    )
    .expect("String");
    for (prefix, heading) in HEADINGS {
        write!(out, "\n## {heading}\n| ID | requirement | level | source | tested by |\n|---|---|---|---|---|\n").expect("String");
        for r in rows.iter().filter(|r| series(&r.id) == *prefix) {
            let tested = match by_id.get(r.id.as_str()) {
                Some(tests) => tests.iter().map(|t| format!("[{}](../{})", t.name, t.path)).collect::<Vec<_>>().join("<br>"),
                None if r.exempt.is_empty() => "not yet".into(),
                None => format!("exempt: {}", r.exempt),
            };
            let cell = |s: &str| s.replace('|', "\\|");
            writeln!(out, "| {} | {} | {} | {} | {tested} |", r.id, cell(&r.text), cell(&r.level), cell(&r.source)).expect("String");
        }
    }
    out
}

fn series(id: &str) -> &str {
    id.split('-').next().unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_with_their_ids() {
        let text = "/// Covers: ARP-1, ARP-8\n#[test]\nfn learns() {\n}\n/// Text.\n/// Covers: IP-2\n/// More.\n#[test]\n#[ignore]\nfn sums() {}\n";
        let (tests, problems) = collect("a.rs", text);
        assert!(problems.is_empty(), "{problems:?}");
        let found: Vec<_> = tests.iter().map(|t| (t.name.as_str(), t.ids.join(" "))).collect();
        assert_eq!(found, [("learns", "ARP-1 ARP-8".into()), ("sums", "IP-2".into())]);
    }

    #[test]
    fn a_covers_line_without_a_test_is_a_problem() {
        assert_eq!(collect("a.rs", "/// Covers: ARP-1\nfn helper() {}\n").1.len(), 1);
        assert_eq!(collect("a.rs", "/// Covers: ARP-1\nstruct A;\n").1.len(), 1);
    }

    #[test]
    fn a_proof_counts_as_a_file() {
        let (tests, _) = collect("hdl/formal/port_db.sv", "// Covers: PDB-2, PDB-3\nmodule harness;\n");
        assert_eq!(tests.len(), 1);
        assert_eq!(tests[0].ids, ["PDB-2", "PDB-3"]);
    }

    #[test]
    fn the_list_is_well_formed() {
        let (rows, due) = parse(include_str!("../../../tests/requirements.tsv")).expect("parses");
        assert!(rows.len() >= 345);
        assert!(due.iter().all(|d| rows.iter().any(|r| r.milestone == *d)), "a due milestone has no row");
        assert!(rows.iter().all(|r| r.exempt.is_empty() || r.exempt.len() >= 20), "an exemption has no reason");
    }
}
