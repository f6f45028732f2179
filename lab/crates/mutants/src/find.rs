//! Possible changes in a source: one place on one line, in code that runs.

use std::ops::Range;

use anyhow::{Context, Result};
use syn::{
    Attribute, BinOp, Block, Expr, ImplItem, ImplItemFn, Item, ItemFn, Lit, Pat, ReturnType,
    Signature, Stmt, Type,
    spanned::Spanned,
    visit::{self, Visit},
};

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Comparison,
    Sum,
    Logic,
    Condition,
    Answer,
    Constant,
    Call,
}

/// All kinds, in the order in which they are drawn.
pub const KINDS: [Kind; 7] = [
    Kind::Comparison,
    Kind::Condition,
    Kind::Call,
    Kind::Sum,
    Kind::Answer,
    Kind::Logic,
    Kind::Constant,
];

/// A change that can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub path: String,
    pub line: usize,
    pub kind: Kind,
    /// The function that it is in.
    pub function: String,
    pub bytes: Range<usize>,
    /// The text as it is, and with the change.
    pub text: String,
    pub changed: String,
    /// The line that it is on.
    pub context: String,
}

impl Candidate {
    /// Returns the text in its place: the text with the change if `guard` holds, else as it was.
    pub fn guarded(&self, guard: &str) -> String {
        let (text, changed) = (&self.text, &self.changed);
        match self.kind {
            Kind::Call => format!("if !{guard} {{ {text} }}"),
            _ => format!("(if {guard} {{ {changed} }} else {{ {text} }})"),
        }
    }
}

/// All candidates of a source.
pub fn candidates(path: &str, text: &str) -> Result<Vec<Candidate>> {
    let file = syn::parse_file(text).with_context(|| format!("{path} is not Rust"))?;
    let mut finder = Finder { path, text, functions: Vec::new(), found: Vec::new() };
    finder.visit_file(&file);
    finder.found.sort_by_key(|candidate| (candidate.bytes.start, candidate.bytes.end));
    Ok(finder.found)
}

struct Finder<'a> {
    path: &'a str,
    text: &'a str,
    /// The functions around this place: names, and whether they return a bool.
    functions: Vec<(String, bool)>,
    found: Vec<Candidate>,
}

impl Finder<'_> {
    fn add(&mut self, kind: Kind, of: &impl Spanned, change: impl FnOnce(&str) -> String) {
        let span = of.span();
        let Some((function, _)) = self.functions.last() else { return };
        if span.start().line != span.end().line {
            return;
        }
        let bytes = span.byte_range();
        let text = self.text[bytes.clone()].to_owned();
        let start = self.text[..bytes.start].rfind('\n').map_or(0, |at| at + 1);
        let context = self.text[start..].lines().next().unwrap_or_default().trim().to_owned();
        self.found.push(Candidate {
            path: self.path.into(),
            line: span.start().line,
            kind,
            function: function.clone(),
            bytes,
            changed: change(&text),
            text,
            context,
        });
    }

    fn negated(&mut self, kind: Kind, of: &Expr) {
        if !matches!(of, Expr::Lit(_)) && !has_let(of) {
            self.add(kind, of, |text| format!("!({text})"));
        }
    }

    /// The code of a function, unless the compiler runs it.
    fn function(&mut self, signature: &Signature, body: &Block) {
        if signature.constness.is_some() {
            return;
        }
        let is_bool = matches!(&signature.output, ReturnType::Type(_, of)
            if matches!(&**of, Type::Path(path) if path.path.is_ident("bool")));
        self.functions.push((signature.ident.to_string(), is_bool));
        if let (true, Some(Stmt::Expr(last, None))) = (is_bool, body.stmts.last()) {
            self.answer(last);
        }
        self.visit_block(body);
        self.functions.pop();
    }

    /// What a function answers with, unless several arms say it.
    fn answer(&mut self, of: &Expr) {
        if !matches!(of, Expr::Match(_) | Expr::If(_) | Expr::Block(_) | Expr::Loop(_)) {
            self.negated(Kind::Answer, of);
        }
    }

    fn binary(&mut self, of: &syn::ExprBinary) {
        let (kind, other) = match of.op {
            BinOp::Lt(_) => (Kind::Comparison, "<="),
            BinOp::Le(_) => (Kind::Comparison, "<"),
            BinOp::Gt(_) => (Kind::Comparison, ">="),
            BinOp::Ge(_) => (Kind::Comparison, ">"),
            BinOp::Eq(_) => (Kind::Comparison, "!="),
            BinOp::Ne(_) => (Kind::Comparison, "=="),
            BinOp::Add(_) => (Kind::Sum, "-"),
            BinOp::Sub(_) => (Kind::Sum, "+"),
            BinOp::AddAssign(_) => (Kind::Sum, "-="),
            BinOp::SubAssign(_) => (Kind::Sum, "+="),
            BinOp::And(_) => (Kind::Logic, "||"),
            BinOp::Or(_) => (Kind::Logic, "&&"),
            _ => return,
        };
        if has_let(&of.left) || has_let(&of.right) {
            return;
        }
        let (whole, operator) = (of.span().byte_range(), of.op.span().byte_range());
        self.add(kind, of, |text| {
            let mut changed = text.to_owned();
            let start = operator.start - whole.start;
            changed.replace_range(start..operator.end - whole.start, other);
            changed
        });
    }
}

/// Returns whether an expression is a condition that binds names, which cannot be a part of another
/// one.
fn has_let(of: &Expr) -> bool {
    match of {
        Expr::Let(_) => true,
        Expr::Binary(of) => has_let(&of.left) || has_let(&of.right),
        _ => false,
    }
}

/// Returns whether an item is compiled in some programs only.
fn is_conditional(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|of| of.path().is_ident("cfg") || of.path().is_ident("test"))
}

/// Returns whether this is the name of a constant.
fn is_constant(path: &syn::Path) -> bool {
    path.get_ident().is_some_and(|name| {
        let name = name.to_string();
        name.len() > 1 && name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_')
    })
}

impl<'a> Visit<'a> for Finder<'_> {
    fn visit_item(&mut self, item: &'a Item) {
        match item {
            Item::Fn(ItemFn { attrs, sig, block, .. }) if !is_conditional(attrs) => {
                self.function(sig, block);
            }
            Item::Impl(of) if !is_conditional(&of.attrs) => visit::visit_item_impl(self, of),
            Item::Trait(of) if !is_conditional(&of.attrs) => visit::visit_item_trait(self, of),
            Item::Mod(of) if !is_conditional(&of.attrs) => visit::visit_item_mod(self, of),
            _ => {}
        }
    }

    fn visit_impl_item(&mut self, item: &'a ImplItem) {
        if let ImplItem::Fn(ImplItemFn { attrs, sig, block, .. }) = item
            && !is_conditional(attrs)
        {
            self.function(sig, block);
        }
    }

    fn visit_trait_item_fn(&mut self, of: &'a syn::TraitItemFn) {
        if let Some(body) = &of.default {
            self.function(&of.sig, body);
        }
    }

    // None of these holds code that runs.
    fn visit_pat(&mut self, _: &'a Pat) {}
    fn visit_type(&mut self, _: &'a Type) {}
    fn visit_generic_argument(&mut self, _: &'a syn::GenericArgument) {}
    fn visit_attribute(&mut self, _: &'a Attribute) {}
    fn visit_expr_const(&mut self, _: &'a syn::ExprConst) {}

    fn visit_expr_repeat(&mut self, of: &'a syn::ExprRepeat) {
        self.visit_expr(&of.expr);
    }

    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        if !is_conditional(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if let Stmt::Expr(Expr::MethodCall(call), Some(_)) = stmt
            && starts_at_self(&call.receiver)
        {
            self.add(Kind::Call, stmt, |_| String::new());
        }
        visit::visit_stmt(self, stmt);
    }

    fn visit_expr(&mut self, of: &'a Expr) {
        match of {
            Expr::Binary(binary) => self.binary(binary),
            Expr::If(branch) => self.negated(Kind::Condition, &branch.cond),
            Expr::While(branch) => self.negated(Kind::Condition, &branch.cond),
            Expr::Return(answer) => {
                let is_bool = self.functions.last().is_some_and(|(_, is_bool)| *is_bool);
                if let (true, Some(answer)) = (is_bool, &answer.expr) {
                    self.answer(answer);
                }
            }
            // A closure answers for itself.
            Expr::Closure(closure) => {
                let name = self.functions.last().map_or("", |(name, _)| name).to_owned();
                self.functions.push((name, false));
                visit::visit_expr_closure(self, closure);
                self.functions.pop();
                return;
            }
            Expr::Lit(literal) if matches!(literal.lit, Lit::Int(_)) => {
                self.add(Kind::Constant, of, |text| format!("{text} + 1"));
            }
            Expr::Path(path) if is_constant(&path.path) => {
                self.add(Kind::Constant, of, |text| format!("{text} + 1"));
            }
            _ => {}
        }
        visit::visit_expr(self, of);
    }
}

fn starts_at_self(of: &Expr) -> bool {
    match of {
        Expr::Path(path) => path.path.is_ident("self"),
        Expr::Field(field) => starts_at_self(&field.base),
        Expr::Index(index) => starts_at_self(&index.expr),
        _ => false,
    }
}
