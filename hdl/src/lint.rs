// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elaboration-time lint for the places where rust-hdl's Rust semantics and its Verilog differ.
use ast::{VerilogExpression as E, VerilogLoop, VerilogOp as O, VerilogOpUnary as U};
use rust_hdl::prelude::*;
use std::collections::HashSet;

#[derive(Default)]
pub struct Lint {
    path: Vec<String>,
    names: Vec<HashSet<String>>,
    pub hits: Vec<String>,
}
/// Elaborated block in, hits out; every hit names the block's path, the rule and the expression.
pub fn lint<B: Block>(name: &str, u: &B) -> Vec<String> {
    let mut l = Lint::default();
    u.accept(name, &mut l);
    l.hits
}

impl Probe for Lint {
    fn visit_start_scope(&mut self, n: &str, _: &dyn Block) {
        self.path.push(n.into());
        self.names.push(Default::default());
    }
    fn visit_start_namespace(&mut self, _: &str, _: &dyn Block) {}
    fn visit_atom(&mut self, n: &str, _: &dyn Atom) {
        if let Some(s) = self.names.last_mut() {
            s.insert(n.into());
        }
    }
    fn visit_end_namespace(&mut self, _: &str, _: &dyn Block) {}
    fn visit_end_scope(&mut self, _: &str, b: &dyn Block) {
        let names = self.names.pop().unwrap();
        if let Verilog::Combinatorial(code) = b.hdl() {
            let mut v = V { at: self.path.join("."), names, hits: vec![] };
            v.visit_block(&code);
            self.hits.append(&mut v.hits);
        }
        self.path.pop();
    }
}
struct V {
    at: String,
    names: HashSet<String>,
    hits: Vec<String>,
}
fn strip(e: &E) -> &E {
    if let E::Paren(x) = e {
        strip(x)
    } else {
        e
    }
}
/// Result can depend on the (wider) Verilog context.
fn wide(e: &E) -> bool {
    match strip(e) {
        E::Binary(_, O::Add | O::Sub | O::Mul | O::Shl, _) | E::Unary(U::Not | U::Neg, _) => true,
        E::Binary(l, O::BitAnd | O::BitOr | O::BitXor, r) => wide(l) || wide(r),
        E::Binary(l, O::Shr, _) => wide(l),
        E::IndexReplace(..) => false,
        _ => false,
    }
}
/// A literal (32/64 bits in Verilog) or a cast operand can widen the context.
fn widens(e: &E) -> bool {
    match strip(e) {
        E::Literal(_) | E::Cast(..) | E::IndexReplace(..) => true,
        E::Binary(l, O::Shl | O::Shr, _) => widens(l),
        E::Binary(l, O::Add | O::Sub | O::Mul | O::BitAnd | O::BitOr | O::BitXor, r) => widens(l) || widens(r),
        E::Unary(U::Not | U::Neg, x) => widens(x),
        _ => false,
    }
}
impl V {
    fn hit(&mut self, why: &str, e: &E) {
        let s = format!("{e:?}");
        self.hits.push(format!("{}: {why}: {}", self.at, &s[..s.len().min(160)]));
    }
}
impl VerilogVisitor for V {
    fn visit_loop(&mut self, a: &VerilogLoop) {
        if self.names.contains(&a.index) {
            self.hits.push(format!("{}: loop variable `{}` shadows a signal", self.at, a.index));
        }
        self.visit_block(&a.block);
    }
    fn visit_cast(&mut self, e: &E, _: &usize) {
        if wide(e) {
            self.hit("cast of arithmetic", e);
        }
        self.visit_expression(e);
    }
    fn visit_slice(&mut self, a: &E, _: &usize, c: &E) {
        if !matches!(a, E::Signal(_)) {
            self.hit("slice of a non-signal", a);
        }
        self.visit_expression(a);
        self.visit_expression(c);
    }
    fn visit_index(&mut self, a: &E, c: &E) {
        if !matches!(a, E::Signal(_)) {
            self.hit("bit select of a non-signal", a);
        }
        self.visit_expression(a);
        self.visit_expression(c);
    }
    fn visit_index_replace(&mut self, a: &E, b: &E, c: &E) {
        if wide(c) {
            self.hit("replace_bit value", c);
        }
        for x in [a, b, c] {
            self.visit_expression(x);
        }
    }
    fn visit_unop(&mut self, o: &U, e: &E) {
        if matches!(o, U::All | U::Any | U::Xor) && widens(e) && (wide(e) || matches!(o, U::All)) {
            self.hit("reduction of widened expression", e);
        }
        self.visit_expression(e);
    }
    fn visit_binop(&mut self, l: &E, o: &O, r: &E) {
        let cmp = matches!(o, O::Eq | O::Ne | O::Lt | O::Le | O::Gt | O::Ge);
        if cmp {
            for x in [l, r] {
                if wide(x) && (widens(l) || widens(r)) {
                    self.hit("compare of un-truncated arithmetic", x);
                }
                if matches!(x, E::Binary(_, O::BitAnd | O::BitOr | O::BitXor, _)) {
                    self.hit("parenthesise &,|,^ next to a comparison", x);
                }
            }
        }
        if matches!(o, O::Shr) && wide(l) && widens(l) {
            self.hit("right shift of un-truncated arithmetic", l);
        }
        self.visit_expression(l);
        self.visit_expression(r);
    }
}
