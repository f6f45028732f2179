//! Rust source as tokens: the paths that it mentions, whether in a `use`, an expression or a macro.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{Attribute, Meta};

/// All paths (`a::b::c`) of a file, with the groups of `use` written out. Comments hold none.
pub fn paths(source: &str) -> Vec<Vec<String>> {
    paths_in(parse(source))
}

/// All paths among these tokens.
pub fn paths_in(tokens: TokenStream) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    collect(tokens, &[], &mut found);
    found
}

/// A file's tokens.
pub fn parse(source: &str) -> TokenStream {
    source.parse().unwrap_or_else(|error| panic!("not Rust: {error}"))
}

/// Returns whether an attribute has its item compiled only where `condition` holds: `cfg(condition)`
/// or `cfg(all(condition, …))`.
pub fn requires(attribute: &Attribute, condition: &str) -> bool {
    let Meta::List(list) = &attribute.meta else { return false };
    let asked = list.tokens.to_string();
    list.path.is_ident("cfg")
        && (asked == condition || asked.starts_with(&format!("all ({condition} ,")))
}

/// Gathers paths; those that start here continue `prefix`.
fn collect(tokens: TokenStream, prefix: &[String], found: &mut Vec<Vec<String>>) {
    let mut path: Vec<String> = Vec::new();
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Ident(name) => {
                if colons != 2 {
                    finish(&mut path, found);
                    path = prefix.to_vec();
                }
                path.push(name.to_string());
                colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            TokenTree::Group(group) => {
                let continues = colons == 2 && group.delimiter() == Delimiter::Brace;
                let stem = if continues { std::mem::take(&mut path) } else { Vec::new() };
                collect(group.stream(), &stem, found);
                colons = 0;
            }
            _ => colons = 0,
        }
    }
    finish(&mut path, found);
}

fn finish(path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    if !path.is_empty() {
        found.push(std::mem::take(path));
    }
}

#[test]
fn writes_out_groups_and_looks_into_macros() {
    let found = paths("use a::{b, c::{self, d}}; fn f() { m!(x::y, \"no::path\") } // also::none");
    for path in ["a::b", "a::c::self", "a::c::d", "x::y"] {
        assert!(
            found.contains(&path.split("::").map(str::to_owned).collect()),
            "{path} in {found:?}"
        );
    }
    assert!(!found.iter().any(|path| path[0] == "also" || path[0] == "no"));
}
