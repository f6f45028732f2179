//! Small rooms: how long a file and a function may be, as a ratchet.
//!
//! `giants.txt` lists what was longer when it was tolerated, with its size then. A giant may shrink
//! but not grow, and leaves the list when it fits; nothing new is added to the list without a
//! reason that convinces a reviewer.

use std::{collections::BTreeMap, sync::OnceLock};

use syn::{
    Block, ImplItemFn, ItemFn, Signature, TraitItemFn,
    visit::{self, Visit},
};

use crate::{demand, files, numbers};

/// Lines of a file.
const FILE_LINES: usize = 700;

/// Lines of a function, from its signature to its closing brace.
const FUNCTION_LINES: usize = 60;

/// The tolerated giants: what, and its lines when it was listed.
const GIANTS: &str = include_str!("giants.txt");

/// The lines of each function of a file, the longest where a name occurs twice.
#[derive(Default)]
struct Functions(BTreeMap<String, usize>);

impl Functions {
    fn add(&mut self, signature: &Signature, body: &Block) {
        let first = signature.fn_token.span.start().line;
        let last = body.brace_token.span.close().end().line;
        let lines = self.0.entry(signature.ident.to_string()).or_default();
        *lines = (*lines).max(last - first + 1);
    }
}

impl<'a> Visit<'a> for Functions {
    fn visit_item_fn(&mut self, function: &'a ItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'a ImplItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'a TraitItemFn) {
        if let Some(body) = &function.default {
            self.add(&function.sig, body);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

/// Everything that is longer than it may be, as `giants.txt` writes it.
fn giants() -> &'static BTreeMap<String, usize> {
    static FOUND: OnceLock<BTreeMap<String, usize>> = OnceLock::new();
    FOUND.get_or_init(find)
}

fn find() -> BTreeMap<String, usize> {
    let mut giants = BTreeMap::new();
    for (path, text) in files::rust() {
        let lines = text.lines().count();
        if lines > FILE_LINES {
            giants.insert(path.clone(), lines);
        }
        let mut functions = Functions::default();
        functions
            .visit_file(&syn::parse_file(&text).unwrap_or_else(|error| panic!("{path}: {error}")));
        let long = functions.0.into_iter().filter(|(_, lines)| *lines > FUNCTION_LINES);
        giants.extend(long.map(|(name, lines)| (format!("{path} {name}"), lines)));
    }
    giants
}

#[test]
fn rooms_are_small() {
    let tolerated = numbers(GIANTS);
    let faults = giants()
        .iter()
        .filter(|(what, lines)| tolerated.get(what.as_str()).is_none_or(|limit| *lines > limit));
    demand(
        &format!(
            "longer than {FILE_LINES} lines (file) or {FUNCTION_LINES} (function), or grown since it was tolerated"
        ),
        faults.map(|(what, lines)| format!("{what} {lines}")).collect(),
    );
}

#[test]
fn tolerated_giants_are_giants_still() {
    let giants = giants();
    let faults =
        numbers(GIANTS).into_keys().filter(|what| !giants.contains_key(*what)).map(str::to_owned);
    demand("it fits now: take it out of giants.txt", faults.collect());
}
