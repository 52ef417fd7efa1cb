// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elaboration-time lint for the places where rust-hdl's Rust meaning and its Verilog differ without a word.
//!
//! rust-hdl runs an `update` body in Rust (widths are types, everything wraps) and copies its text into Verilog (the width of an
//! expression comes from its context, a literal has 32 bits). [`lint`] walks the syntax tree that becomes Verilog and reports:
//!
//! | rule | why |
//! |---|---|
//! | [`Rule::Cast`] | a cast of a sum, shift or NOT keeps carry or upper bits that Rust dropped |
//! | [`Rule::Compare`] | a comparison next to a literal or cast sees the sum un-wrapped |
//! | [`Rule::Shift`] | a right shift brings the carry of a sum down |
//! | [`Rule::Reduction`] | `all`, `any`, `xor` over an expression that became wider |
//! | [`Rule::Precedence`] | `a & b == c` is `(a & b) == c` in Rust and `a & (b == c)` in Verilog |
//! | [`Rule::Replace`] | the value of `replace_bit` is shifted un-truncated: a NOT sets all bits above |
//! | [`Rule::Select`] | a select of anything but a signal is read differently by each tool |
//! | [`Rule::Shadow`] | a loop variable called like a signal replaces the signal |
//! | [`Rule::ChildInput`] | reading back a child's input: Rust sees the value of before (a flip-flop's `d`, the next state, is left out: `dff_setup!` assigned it first) |
//! | [`Rule::Range`] | a select with a variable offset that can pass the top of its signal |
//!
//! An inclusive loop range (`0..=3` loses its last pass) is gone from the tree; `cargo xtask lint` looks for it in the text.
//! The remedy is always the same: assign to a `Local`, which truncates, and use the `Local`. A hit that is harmless is explained by a
//! row of `hdl/lint-waivers.tsv`.
use ast::{VerilogExpression as E, VerilogLoop, VerilogOp as O, VerilogOpUnary as U};
use rust_hdl::prelude::*;
use std::{
    collections::{HashMap, HashSet},
    fmt,
};

/// What a hit is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Cast,
    Compare,
    Shift,
    Reduction,
    Precedence,
    Replace,
    Select,
    Shadow,
    ChildInput,
    Range,
}

impl Rule {
    /// Name in messages and waivers.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Cast => "cast",
            Rule::Compare => "compare",
            Rule::Shift => "shift",
            Rule::Reduction => "reduction",
            Rule::Precedence => "precedence",
            Rule::Replace => "replace",
            Rule::Select => "select",
            Rule::Shadow => "shadow",
            Rule::ChildInput => "child-input",
            Rule::Range => "range",
        }
    }
}

/// A place where the two meanings may differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    pub rule: Rule,
    /// Path of the block, joined by dots.
    pub block: String,
    /// What is assigned, or empty when the expression is a condition.
    pub target: String,
    /// The expression, Verilog style.
    pub expression: String,
}

impl fmt::Display for Hit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} = .. {} [{}]", self.block, self.target, self.expression, self.rule.name())
    }
}

/// All hits of an elaborated block and its children.
pub fn lint<B: Block>(name: &str, block: &B) -> Vec<Hit> {
    let mut scopes = Scopes::default();
    block.accept(name, &mut scopes);
    scopes.hits
}

/// A row of the waiver file: rule, target, start of the expression, reason. A target ending in `*` stands for all that begin so.
struct Waiver {
    line: &'static str,
    rule: &'static str,
    target: &'static str,
    expression: &'static str,
}

impl Waiver {
    fn explains(&self, hit: &Hit) -> bool {
        let target = self.target.strip_suffix('*').map_or(hit.target == self.target, |start| hit.target.starts_with(start));
        self.rule == hit.rule.name() && target && hit.expression.starts_with(self.expression)
    }
}

fn waivers() -> impl Iterator<Item = Waiver> {
    include_str!("../lint-waivers.tsv").lines().filter(|l| !l.is_empty() && !l.starts_with('#')).map(|line| {
        let columns: Vec<_> = line.split('\t').collect();
        let [rule, target, expression, reason] = columns[..] else { panic!("lint-waivers.tsv: not four columns: {line}") };
        assert!(reason.len() >= 20, "lint-waivers.tsv: a reason is missing: {line}");
        Waiver { line, rule, target, expression }
    })
}

/// Hits that no waiver explains.
pub fn unexplained(hits: &[Hit]) -> impl Iterator<Item = &Hit> {
    hits.iter().filter(|h| !waivers().any(|w| w.explains(h)))
}

/// Rows of the waiver file that explain none of `hits`.
pub fn unused_waivers(hits: &[Hit]) -> impl Iterator<Item = &'static str> + '_ {
    waivers().filter(|w| !hits.iter().any(|h| w.explains(h))).map(|w| w.line)
}

/// One block on the way down: the names that its `update` can use.
#[derive(Default)]
struct Scope {
    name: String,
    namespaces: Vec<String>,
    widths: HashMap<String, usize>,
    inputs: HashSet<String>,
    child_inputs: HashSet<String>,
}

#[derive(Default)]
struct Scopes {
    path: Vec<Scope>,
    hits: Vec<Hit>,
}

impl Probe for Scopes {
    fn visit_start_scope(&mut self, name: &str, _: &dyn Block) {
        self.path.push(Scope { name: name.into(), ..Default::default() });
    }
    fn visit_start_namespace(&mut self, name: &str, _: &dyn Block) {
        if let Some(scope) = self.path.last_mut() {
            scope.namespaces.push(name.into());
        }
    }
    fn visit_end_namespace(&mut self, _: &str, _: &dyn Block) {
        if let Some(scope) = self.path.last_mut() {
            scope.namespaces.pop();
        }
    }
    fn visit_atom(&mut self, name: &str, atom: &dyn Atom) {
        let Some(scope) = self.path.last_mut() else { return };
        let mut path = scope.namespaces.clone();
        path.push(name.into());
        let name = path.join("$");
        if atom.kind() == AtomKind::InputParameter {
            scope.inputs.insert(name.clone());
        }
        scope.widths.insert(name, atom.bits());
    }
    fn visit_end_scope(&mut self, _: &str, block: &dyn Block) {
        let Some(scope) = self.path.pop() else { return };
        if let Verilog::Combinatorial(code) = block.hdl() {
            let at = self.path.iter().chain([&scope]).map(|s| s.name.as_str()).collect::<Vec<_>>().join(".");
            let mut visitor = Visitor { block: at, scope: &scope, target: String::new(), hits: vec![] };
            visitor.visit_block(&code);
            self.hits.append(&mut visitor.hits);
        }
        if let Some(parent) = self.path.last_mut() {
            let mut prefix = parent.namespaces.clone();
            prefix.push(scope.name);
            let prefix = prefix.join("$");
            parent.widths.extend(scope.widths.iter().map(|(n, w)| (format!("{prefix}${n}"), *w)));
            parent.child_inputs.extend(scope.inputs.iter().map(|n| format!("{prefix}${n}")));
        }
    }
}

struct Visitor<'a> {
    block: String,
    scope: &'a Scope,
    target: String,
    hits: Vec<Hit>,
}

fn strip(e: &E) -> &E {
    match e {
        E::Paren(x) => strip(x),
        _ => e,
    }
}

/// The value depends on how wide the context is.
fn wide(e: &E) -> bool {
    match strip(e) {
        E::Binary(_, O::Add | O::Sub | O::Mul | O::Shl, _) | E::Unary(U::Not | U::Neg, _) => true,
        E::Binary(l, O::BitAnd | O::BitOr | O::BitXor, r) => wide(l) || wide(r),
        E::Binary(l, O::Shr, _) => wide(l),
        _ => false,
    }
}

/// Can make the context wider than the types say: a literal (32 or 64 bits in Verilog) or a cast.
fn widens(e: &E) -> bool {
    match strip(e) {
        E::Literal(_) | E::Cast(..) | E::IndexReplace(..) => true,
        E::Binary(l, O::Shl | O::Shr, _) => widens(l),
        E::Binary(l, O::Add | O::Sub | O::Mul | O::BitAnd | O::BitOr | O::BitXor, r) => widens(l) || widens(r),
        E::Unary(U::Not | U::Neg, x) => widens(x),
        _ => false,
    }
}

/// Name as in Verilog; an index of an array becomes its text.
fn signal(name: &str) -> String {
    name.trim_start_matches('.').replace('.', "$").trim_end_matches("$next").into()
}

fn show(e: &E) -> String {
    match e {
        E::Signal(s) => signal(s),
        E::Literal(l) => l.to_string(),
        E::Cast(x, n) => format!("{n}'({})", show(x)),
        E::Signed(x) => format!("$signed({})", show(x)),
        E::Unsigned(x) => format!("$unsigned({})", show(x)),
        E::Paren(x) => format!("({})", show(x)),
        E::Binary(l, o, r) => format!("{} {o:?} {}", show(l), show(r)),
        E::Unary(o, x) => format!("{o:?} {}", show(x)),
        E::Index(x, i) => format!("{}[{}]", show(x), show(i)),
        E::Slice(x, n, i) => format!("{}[{} +: {n}]", show(x), show(i)),
        E::IndexReplace(x, i, v) => format!("replace({}, {}, {})", show(x), show(i), show(v)),
    }
}

/// Array indices as one mark, so that `arr[i]$x` and `arr$0$x` look alike.
fn any_index(name: &str) -> String {
    let mut out = String::new();
    for (i, part) in name.replace('[', "$[").split('$').enumerate() {
        if i > 0 {
            out.push('$');
        }
        out.push_str(if part.starts_with('[') || part.bytes().all(|b| b.is_ascii_digit()) { "#" } else { part });
    }
    out
}

impl Visitor<'_> {
    fn hit(&mut self, rule: Rule, expression: String) {
        self.hits.push(Hit { rule, block: self.block.clone(), target: self.target.clone(), expression });
    }

    fn width(&self, name: &str) -> Option<usize> {
        let name = any_index(&signal(name));
        self.scope.widths.iter().find(|(n, _)| any_index(n) == name).map(|(_, w)| *w)
    }

    /// Largest value, as far as the tree tells; `None` for a loop index or something unknown.
    fn largest(&self, e: &E) -> Option<u64> {
        let ones = |n: usize| if n < 64 { (1u64 << n) - 1 } else { u64::MAX };
        match strip(e) {
            E::Signal(s) => self.width(s).map(ones),
            E::Literal(l) => literal(&l.to_string()),
            E::Cast(x, n) => Some(self.largest(x).unwrap_or(u64::MAX).min(ones(*n))),
            E::Slice(_, n, _) => Some(ones(*n)),
            E::Index(..) => Some(1),
            E::Binary(l, O::Mul, r) => Some(self.largest(l)?.saturating_mul(self.largest(r)?)),
            E::Binary(l, O::Add, r) => Some(self.largest(l)?.saturating_add(self.largest(r)?)),
            _ => None,
        }
    }

    /// A select `x[offset +: width]` that can reach past the top.
    fn range(&mut self, x: &E, width: usize, offset: &E) {
        let E::Signal(name) = x else { return };
        let (Some(have), Some(offset_max)) = (self.width(name), self.largest(offset)) else { return };
        if offset_max.saturating_add(width as u64) > have as u64 {
            self.hit(Rule::Range, format!("{}[{} +: {width}]", show(x), show(offset)));
        }
    }
}

/// A literal as rust-hdl writes it: `32'h1f`, or plain decimal.
fn literal(text: &str) -> Option<u64> {
    let (radix, digits) = match text.split_once('\'') {
        Some((_, rest)) => match rest.split_at_checked(1)? {
            ("h", d) => (16, d),
            ("b", d) => (2, d),
            (_, d) => (10, d),
        },
        None => (10, text),
    };
    u64::from_str_radix(digits, radix).ok()
}

impl VerilogVisitor for Visitor<'_> {
    fn visit_assignment(&mut self, l: &E, r: &E) {
        self.target = show(l);
        self.visit_expression(r);
        self.target.clear();
    }
    /// A field of a bundle is assigned by a slice; the base is written, not read.
    fn visit_slice_assignment(&mut self, base: &E, _: &usize, offset: &E, value: &E) {
        self.target = show(base);
        self.visit_expression(offset);
        self.visit_expression(value);
        self.target.clear();
    }
    fn visit_signal(&mut self, name: &str) {
        let name = signal(name);
        let like = any_index(&name);
        if !like.ends_with("$d") && self.scope.child_inputs.iter().any(|n| any_index(n) == like) {
            self.hit(Rule::ChildInput, name);
        }
    }
    fn visit_loop(&mut self, a: &VerilogLoop) {
        if self.scope.widths.contains_key(&a.index) {
            self.hit(Rule::Shadow, a.index.clone());
        }
        self.visit_block(&a.block);
    }
    fn visit_cast(&mut self, e: &E, _: &usize) {
        if wide(e) {
            self.hit(Rule::Cast, show(e));
        }
        self.visit_expression(e);
    }
    fn visit_slice(&mut self, a: &E, width: &usize, offset: &E) {
        if !matches!(a, E::Signal(_)) {
            self.hit(Rule::Select, show(a));
        }
        self.range(a, *width, offset);
        self.visit_expression(a);
        self.visit_expression(offset);
    }
    fn visit_index(&mut self, a: &E, index: &E) {
        if !matches!(a, E::Signal(_)) {
            self.hit(Rule::Select, show(a));
        }
        self.range(a, 1, index);
        self.visit_expression(a);
        self.visit_expression(index);
    }
    fn visit_index_replace(&mut self, a: &E, index: &E, value: &E) {
        if wide(value) {
            self.hit(Rule::Replace, show(value));
        }
        for x in [a, index, value] {
            self.visit_expression(x);
        }
    }
    fn visit_unop(&mut self, o: &U, e: &E) {
        if matches!(o, U::All | U::Any | U::Xor) && widens(e) && (wide(e) || matches!(o, U::All)) {
            self.hit(Rule::Reduction, show(e));
        }
        self.visit_expression(e);
    }
    fn visit_binop(&mut self, l: &E, o: &O, r: &E) {
        if matches!(o, O::Eq | O::Ne | O::Lt | O::Le | O::Gt | O::Ge) {
            for x in [l, r] {
                if wide(x) && (widens(l) || widens(r)) {
                    self.hit(Rule::Compare, show(x));
                }
                if matches!(x, E::Binary(_, O::BitAnd | O::BitOr | O::BitXor, _)) {
                    self.hit(Rule::Precedence, show(x));
                }
            }
        }
        if matches!(o, O::Shr) && wide(l) && widens(l) {
            self.hit(Rule::Shift, show(l));
        }
        self.visit_expression(l);
        self.visit_expression(r);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::precedence, clippy::nonminimal_bool)]
    use super::*;

    /// A block with every hazard, one to an output (`x_*`), and forms that must not be flagged (`ok_*`).
    #[derive(LogicBlock, Default)]
    struct Hazards {
        pub clock: Signal<In, Clock>,
        pub a: Signal<In, Bits<4>>,
        pub b: Signal<In, Bits<4>>,
        pub c: Signal<In, Bits<4>>,
        pub f: Signal<In, Bit>,
        pub w: Signal<In, Bits<8>>,
        pub q: Signal<In, Bits<96>>,
        pub lane: Signal<In, Bit>,
        pub x_inc_eq_literal: Signal<Out, Bit>,
        pub x_inc_eq_signal: Signal<Out, Bit>,
        pub x_difference_lt_literal: Signal<Out, Bit>,
        pub x_not_eq_literal: Signal<Out, Bit>,
        pub x_wide_inc_eq_signal: Signal<Out, Bit>,
        pub x_cast_of_sum: Signal<Out, Bits<8>>,
        pub x_cast_of_not: Signal<Out, Bits<8>>,
        pub x_cast_of_not_bit: Signal<Out, Bits<8>>,
        pub x_cast_of_narrow_shift: Signal<Out, Bits<8>>,
        pub x_cast_of_shifted_sum: Signal<Out, Bits<8>>,
        pub x_precedence: Signal<Out, Bit>,
        pub x_replace_not: Signal<Out, Bits<8>>,
        pub x_shift_of_sum: Signal<Out, Bits<4>>,
        pub x_all_of_sum: Signal<Out, Bit>,
        pub x_select_of_select: Signal<Out, Bit>,
        pub x_slice_of_field: Signal<Out, Bits<4>>,
        pub x_slice_past_top: Signal<Out, Bits<16>>,
        pub ok_carry: Signal<Out, Bits<5>>,
        pub ok_replace: Signal<Out, Bits<96>>,
        pub ok_not_any: Signal<Out, Bit>,
        pub ok_slice: Signal<Out, Bits<16>>,
        pub ok_bit: Signal<Out, Bit>,
        pub ok_narrow: Signal<Out, Bits<8>>,
        pub ok_local: Signal<Out, Bit>,
        pub ok_sum_eq_signal: Signal<Out, Bit>,
        pub ok_parentheses: Signal<Out, Bit>,
        beat: DFF<crate::stream::Beat>,
        child: DFF<Bits<4>>,
        shadow: Shadow,
        t: Signal<Local, Bits<4>>,
    }

    impl Logic for Hazards {
        #[hdl_gen]
        fn update(&mut self) {
            dff_setup!(self, clock, beat, child);
            self.shadow.lane.next = self.lane.val();
            self.x_inc_eq_literal.next = (self.a.val() + 1) == 0;
            self.x_inc_eq_signal.next = (self.a.val() + 1) == self.b.val();
            self.x_difference_lt_literal.next = (self.a.val() - self.b.val()) < 4;
            self.x_not_eq_literal.next = !self.a.val() == 5;
            self.x_wide_inc_eq_signal.next = (self.q.val() + 1) == self.q.val();
            self.x_cast_of_sum.next = bit_cast::<8, 4>(self.a.val() + self.b.val());
            self.x_cast_of_not.next = bit_cast::<8, 4>(!self.a.val());
            self.x_cast_of_not_bit.next = bit_cast::<8, 1>((!self.f.val()).into());
            self.x_cast_of_narrow_shift.next = bit_cast::<8, 4>(bit_cast::<4, 8>(self.w.val()) << 2);
            self.x_cast_of_shifted_sum.next = bit_cast::<8, 4>((self.a.val() + self.b.val()) >> 1);
            self.x_precedence.next = self.a.val() & self.b.val() == self.c.val();
            self.x_replace_not.next = self.w.val().replace_bit(2, !self.f.val());
            self.x_shift_of_sum.next = (self.a.val() + 1) >> 1;
            self.x_all_of_sum.next = (self.a.val() + 1).all();
            self.x_select_of_select.next = self.w.val().get_bits::<4>(4).get_bit(1);
            self.x_slice_of_field.next = self.beat.q.val().keep.get_bits::<4>(0);
            self.x_slice_past_top.next = self.q.val().get_bits::<16>(self.a.val().index() * 6);
            self.beat.d.next.last = self.f.val();
            self.child.d.next = self.a.val();
            self.child.d.next = self.child.d.val();
            self.shadow.lane.next = self.shadow.lane.val();
            self.ok_carry.next = bit_cast::<5, 4>(self.a.val()) + bit_cast::<5, 4>(self.b.val());
            self.ok_replace.next = self.q.val().replace_bit(70, self.f.val());
            self.ok_not_any.next = !self.w.val().any();
            self.ok_slice.next = self.q.val().get_bits::<16>(self.a.val().index() * 5);
            self.ok_bit.next = self.q.val().get_bit(self.a.val().index());
            self.ok_narrow.next = bit_cast::<8, 96>(self.q.val());
            self.t.next = self.a.val() + 1;
            self.ok_local.next = self.t.val() == self.b.val();
            self.ok_sum_eq_signal.next = (self.a.val() + self.b.val()) == self.c.val();
            self.ok_parentheses.next = (self.a.val() & self.b.val()) == self.c.val();
        }
    }

    /// A loop variable with the name of a port.
    #[derive(LogicBlock, Default)]
    struct Shadow {
        pub lane: Signal<In, Bit>,
        pub x: [Signal<Out, Bit>; 2],
    }

    impl Logic for Shadow {
        #[hdl_gen]
        fn update(&mut self) {
            for lane in 0..2 {
                self.x[lane].next = self.lane.val();
            }
        }
    }

    fn hits() -> Vec<Hit> {
        let mut block = Box::<Hazards>::default();
        block.connect_all();
        lint("hazards", block.as_ref())
    }

    /// The targets that `rule` was found at.
    fn found(rule: Rule) -> Vec<String> {
        let mut targets: Vec<_> = hits().into_iter().filter(|h| h.rule == rule).map(|h| h.target).collect();
        targets.sort();
        targets.dedup();
        targets
    }

    #[test]
    fn comparisons_of_sums_beside_a_literal_are_flagged() {
        let want = ["x_difference_lt_literal", "x_inc_eq_literal", "x_inc_eq_signal", "x_not_eq_literal", "x_wide_inc_eq_signal"];
        assert_eq!(found(Rule::Compare), want);
    }

    #[test]
    fn casts_of_arithmetic_are_flagged() {
        let want = ["x_cast_of_narrow_shift", "x_cast_of_not", "x_cast_of_not_bit", "x_cast_of_shifted_sum", "x_cast_of_sum"];
        assert_eq!(found(Rule::Cast), want);
    }

    #[test]
    fn a_missing_parenthesis_is_flagged() {
        assert_eq!(found(Rule::Precedence), ["x_precedence"]);
    }

    #[test]
    fn replace_bit_of_a_not_is_flagged() {
        assert_eq!(found(Rule::Replace), ["x_replace_not"]);
    }

    #[test]
    fn a_right_shift_of_a_sum_is_flagged() {
        assert_eq!(found(Rule::Shift), ["x_shift_of_sum"]);
    }

    #[test]
    fn a_reduction_of_a_sum_is_flagged() {
        assert_eq!(found(Rule::Reduction), ["x_all_of_sum"]);
    }

    #[test]
    fn selects_of_selects_and_of_fields_are_flagged() {
        assert_eq!(found(Rule::Select), ["x_select_of_select", "x_slice_of_field"]);
    }

    #[test]
    fn a_slice_that_can_pass_the_top_is_flagged() {
        assert_eq!(found(Rule::Range), ["x_slice_past_top"]);
    }

    #[test]
    fn reading_the_input_of_a_child_is_flagged() {
        assert_eq!(found(Rule::ChildInput), ["shadow$lane"]);
    }

    #[test]
    fn a_loop_variable_with_the_name_of_a_signal_is_flagged() {
        let shadow: Vec<_> = hits().into_iter().filter(|h| h.rule == Rule::Shadow).collect();
        assert_eq!(shadow.len(), 1);
        assert_eq!((shadow[0].block.as_str(), shadow[0].expression.as_str()), ("hazards.shadow", "lane"));
    }

    #[test]
    fn sound_forms_are_not_flagged() {
        let wrong: Vec<_> = hits().into_iter().filter(|h| h.target.starts_with("ok_")).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }

    #[test]
    fn a_waiver_needs_rule_target_and_start_of_expression() {
        let waiver = Waiver { line: "", rule: "cast", target: "ram_*", expression: "(head" };
        let hit =
            |rule, target: &str, expression: &str| Hit { rule, block: "b".into(), target: target.into(), expression: expression.into() };
        assert!(waiver.explains(&hit(Rule::Cast, "ram_address", "(head Add 1)")));
        assert!(!waiver.explains(&hit(Rule::Compare, "ram_address", "(head Add 1)")));
        assert!(!waiver.explains(&hit(Rule::Cast, "address", "(head Add 1)")));
        assert!(!waiver.explains(&hit(Rule::Cast, "ram_address", "tail")));
    }
}
