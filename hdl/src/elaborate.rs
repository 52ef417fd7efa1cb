// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a block to its Verilog, its ports and what the lint says about it.
use crate::lint::{lint, Hit};
use rust_hdl::prelude::*;
use std::collections::HashSet;

/// A part of a port that carries a LogicStruct: `name` is the path of fields joined by `_`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    pub name: String,
    pub offset: usize,
    pub width: usize,
}

/// A port of the outermost module. `verilog` is the name in Verilog (`inp$data`), `name` the one for Rust (`inp_data`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    pub verilog: String,
    pub name: String,
    pub input: bool,
    pub width: usize,
    pub slices: Vec<Slice>,
}

/// An elaborated block.
#[derive(Clone, Debug)]
pub struct Emitted {
    pub name: &'static str,
    pub verilog: String,
    pub ports: Vec<Port>,
    pub lint: Vec<Hit>,
}

/// Elaborates `block` as a Verilog module called `name`. Panics with rust-hdl's own report when a wire is not driven.
pub fn elaborate<B: Block>(name: &'static str, mut block: Box<B>) -> Emitted {
    block.connect_all();
    check_all(block.as_ref()).unwrap_or_else(|e| panic!("{name}: {e:?}"));
    let mut defines = ModuleDefines::default();
    block.accept(name, &mut defines);
    let mut ports = Ports::default();
    block.accept(name, &mut ports);
    Emitted { name, verilog: continuous_clocks(&defines.defines()), ports: ports.ports, lint: lint(name, block.as_ref()) }
}

/// Makes every wire that only passes the module's `clock` on a continuous assignment.
///
/// rust-hdl hands a clock to a child inside the parent's one `always @(*)`, among the data. A simulator may then see the edge of a deep
/// flip-flop only after data of a shallow one has changed, and the deep one samples the new value: a race that hits some
/// hierarchies and spares others. With `assign` all are one net. Panics when such a wire is driven in another way too.
fn continuous_clocks(verilog: &str) -> String {
    let mut out = String::with_capacity(verilog.len() + verilog.len() / 20);
    for module in verilog.split_inclusive("endmodule") {
        let passed: HashSet<&str> = module.lines().filter_map(|l| l.trim().strip_suffix(" = clock;")).collect();
        let mut assigned = false;
        for line in module.split_inclusive('\n') {
            let statement = line.trim();
            if let Some(name) = statement.strip_prefix("reg  ").and_then(|d| d.strip_suffix(';')).filter(|n| passed.contains(n)) {
                out += &format!("    wire {name};\n");
            } else if statement == "always @(*) begin" && !assigned {
                let mut names: Vec<_> = passed.iter().collect();
                names.sort();
                for name in names {
                    out += &format!("    assign {name} = clock;\n");
                }
                assigned = true;
                out += line;
            } else if !statement.ends_with(" = clock;") {
                if let Some((target, _)) = statement.split_once(" = ") {
                    assert!(!passed.contains(target), "`{target}` carries the clock and something else: {statement}");
                }
                out += line;
            }
        }
        assert!(assigned || passed.is_empty(), "a clock without a block to stand before");
    }
    out
}

#[derive(Default)]
struct Ports {
    depth: usize,
    namespaces: Vec<String>,
    ports: Vec<Port>,
}

fn width(kind: &TypeKind) -> usize {
    match kind {
        TypeKind::Bits(n) | TypeKind::Signed(n) => *n,
        TypeKind::Enum(variants) => clog2(variants.len()).max(1),
        TypeKind::Composite(fields) => fields.iter().map(|f| width(&f.kind.kind)).sum(),
    }
}

/// Fields from the least significant bit up, nested ones flattened.
fn slices(kind: &TypeKind, prefix: &str, base: usize, out: &mut Vec<Slice>) {
    let TypeKind::Composite(fields) = kind else { return };
    let mut offset = base;
    for field in fields {
        let name = if prefix.is_empty() { field.fieldname.clone() } else { format!("{prefix}_{}", field.fieldname) };
        let w = width(&field.kind.kind);
        match field.kind.kind {
            TypeKind::Composite(_) => slices(&field.kind.kind, &name, offset, out),
            _ => out.push(Slice { name, offset, width: w }),
        }
        offset += w;
    }
}

impl Probe for Ports {
    fn visit_start_scope(&mut self, _: &str, _: &dyn Block) {
        self.depth += 1;
    }
    fn visit_end_scope(&mut self, _: &str, _: &dyn Block) {
        self.depth -= 1;
    }
    fn visit_start_namespace(&mut self, name: &str, _: &dyn Block) {
        self.namespaces.push(name.into());
    }
    fn visit_end_namespace(&mut self, _: &str, _: &dyn Block) {
        self.namespaces.pop();
    }
    fn visit_atom(&mut self, name: &str, atom: &dyn Atom) {
        if self.depth != 1 || !atom.kind().is_parameter() {
            return;
        }
        let mut path = self.namespaces.clone();
        path.push(name.into());
        let verilog = path.join("$");
        let mut parts = vec![];
        slices(&atom.descriptor().kind, "", 0, &mut parts);
        self.ports.push(Port {
            name: verilog.replace('$', "_"),
            verilog,
            input: atom.kind() == AtomKind::InputParameter,
            width: atom.bits(),
            slices: parts,
        });
    }
}
