//! The public interface of `weft-endpoint`, the crate for which semantic versioning is promised.
//!
//! It offers modules of the crates that it is made of. Items that are `pub` can be reached from
//! outside, as the lint `unreachable_pub` demands in these crates. So the declarations of their files
//! are its interface, but for those that are hidden in the documentation: they are for each other.

use std::collections::BTreeSet;

use quote::ToTokens;
use syn::{
    Attribute, Fields, ImplItem, Item, ItemEnum, ItemImpl, ItemStruct, ItemTrait, Meta, TraitItem,
    Type, Visibility,
};

use crate::files;

/// The crates that it is made of, and their modules that it does not offer.
const CRATES: [(&str, &[&str]); 4] = [
    (
        "crates/connection/src/",
        &["iscsi_remarks", "memory", "name_files", "naming", "nvme", "reservation_kind", "status"],
    ),
    ("crates/initiator/src/", &[]),
    ("crates/target/src/", &[]),
    (FACADE, &[]),
];

const FACADE: &str = "crates/endpoint/src/";
const LISTING: &str = "crates/endpoint/api.txt";

/// Begins the listing.
const HEAD: &str = "\
# The public interface of weft-endpoint, declaration by declaration. What goes, or changes, is a change for programs that use the crate.
# `WEFT_RECORD=1 cargo test --workspace --test structure -- api` writes this file.
";

#[test]
fn the_interface_is_the_recorded_one() {
    let found = format!("{HEAD}{}", listing().into_iter().collect::<Vec<_>>().join("\n") + "\n");
    let path = xtask::sh::root().join(LISTING);
    if std::env::var_os("WEFT_RECORD").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (now, before) = (lines(&found), lines(&recorded));
    let gone = before.difference(&now).map(|line| format!("- {line}"));
    let new = now.difference(&before).map(|line| format!("+ {line}"));
    crate::demand(
        "the public interface of weft-endpoint differs from crates/endpoint/api.txt; if that is meant, record it \
         (WEFT_RECORD=1), and say in CHANGELOG.md what is gone",
        gone.chain(new).collect(),
    );
}

/// All declarations, each with its module before it.
fn listing() -> BTreeSet<String> {
    let sources = files::rust().into_iter().filter_map(|(path, text)| {
        Some((offered(&path)?, syn::parse_file(&text).unwrap_or_else(|e| panic!("{path}: {e}"))))
    });
    let mut parsed: Vec<(String, Vec<Item>)> =
        sources.map(|(module, file)| (module, file.items)).collect();
    let hidden: Vec<String> = parsed.iter().flat_map(|(at, items)| hidden_in(at, items)).collect();
    let is_below_hidden = |module: &str| {
        let mut above = hidden.iter().filter_map(|hidden| module.strip_prefix(hidden.as_str()));
        above.any(|below| below.is_empty() || below.starts_with("::"))
    };
    parsed.retain(|(module, _)| !is_below_hidden(module));
    let all = || parsed.iter().flat_map(|(_, items)| items);
    let types: BTreeSet<String> =
        all().filter(|item| !is_hidden(attributes(item))).filter_map(public_type).collect();
    let mut lines = BTreeSet::new();
    for (module, items) in &parsed {
        for item in items.iter().filter(|item| !is_inside(attributes(item))) {
            let mut of_item = Vec::new();
            declare(item, &types, &mut of_item);
            lines.extend(of_item.into_iter().map(|line| format!("{module}: {line}")));
        }
    }
    lines
}

/// The module of a file, if programs can import something of it.
fn offered(path: &str) -> Option<String> {
    let (root, kept) = CRATES.iter().find(|(root, _)| path.starts_with(root))?;
    let file = &path[root.len()..];
    // The roots of the others name their modules, which the facade offers under its own name.
    let is_root = file == "lib.rs" && *root != FACADE;
    let top = file.split(['/', '.']).next()?;
    if is_root || kept.contains(&top) { None } else { module_of(file) }
}

/// The modules that a file declares, and hides in the documentation.
fn hidden_in(module: &str, items: &[Item]) -> Vec<String> {
    let hidden = items.iter().filter_map(|item| match item {
        Item::Mod(it) if is_hidden(&it.attrs) => Some(format!("{module}::{}", it.ident)),
        _ => None,
    });
    hidden.collect()
}

/// The path of a file's module; none for tests.
fn module_of(file: &str) -> Option<String> {
    let path = file.strip_suffix(".rs")?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    let parts: Vec<&str> = path.split('/').filter(|part| *part != "lib").collect();
    (!parts.contains(&"tests"))
        .then(|| ["crate"].into_iter().chain(parts).collect::<Vec<_>>().join("::"))
}

fn declare(item: &Item, types: &BTreeSet<String>, lines: &mut Vec<String>) {
    match item {
        Item::Const(it) if is_public(&it.vis) => {
            lines.push(format!("pub const {}: {}", it.ident, text(&it.ty)));
        }
        Item::Static(it) if is_public(&it.vis) => {
            lines.push(format!("pub static {}: {}", it.ident, text(&it.ty)));
        }
        Item::Fn(it) if is_public(&it.vis) => {
            lines.push(with(&it.attrs, &format!("pub {}", text(&it.sig))))
        }
        Item::Struct(it) if is_public(&it.vis) => structure(it, lines),
        Item::Enum(it) if is_public(&it.vis) => enumeration(it, lines),
        Item::Trait(it) if is_public(&it.vis) => interface(it, lines),
        Item::Type(it) if is_public(&it.vis) => {
            lines.push(format!("pub type {}{} = {}", it.ident, text(&it.generics), text(&it.ty)));
        }
        Item::Mod(it) if is_public(&it.vis) => {
            lines.push(with(&it.attrs, &format!("pub mod {}", it.ident)))
        }
        Item::Use(it) if is_public(&it.vis) => {
            lines.push(with(&it.attrs, &format!("pub use {}", text(&it.tree))));
        }
        Item::Impl(it) => implementation(it, types, lines),
        _ => {}
    }
}

fn structure(it: &ItemStruct, lines: &mut Vec<String>) {
    let name = &it.ident;
    lines.push(with(&it.attrs, &format!("pub struct {name}{}", text(&it.generics))));
    for (at, field) in it
        .fields
        .iter()
        .enumerate()
        .filter(|(_, field)| is_public(&field.vis) && !is_hidden(&field.attrs))
    {
        let field_name = field.ident.as_ref().map_or_else(|| at.to_string(), ToString::to_string);
        lines.push(format!("{name}.{field_name}: {}", text(&field.ty)));
    }
}

fn enumeration(it: &ItemEnum, lines: &mut Vec<String>) {
    let name = &it.ident;
    lines.push(with(&it.attrs, &format!("pub enum {name}{}", text(&it.generics))));
    for variant in &it.variants {
        let fields = match &variant.fields {
            Fields::Unit => String::new(),
            fields => {
                let all = fields.iter().map(|field| {
                    let name = field.ident.as_ref().map(|name| format!("{name}: "));
                    name.unwrap_or_default() + &text(&field.ty)
                });
                format!("({})", all.collect::<Vec<_>>().join(", "))
            }
        };
        lines.push(format!("{name}::{}{fields}", variant.ident));
    }
}

fn interface(it: &ItemTrait, lines: &mut Vec<String>) {
    let name = &it.ident;
    let above = if it.supertraits.is_empty() {
        String::new()
    } else {
        format!(": {}", text(&it.supertraits))
    };
    lines.push(with(&it.attrs, &format!("pub trait {name}{}{above}", text(&it.generics))));
    for item in &it.items {
        lines.push(match item {
            TraitItem::Fn(it) => {
                let given = if it.default.is_some() { " { .. }" } else { "" };
                format!("{name}::{}{given}", text(&it.sig))
            }
            TraitItem::Type(it) => format!("{name}::type {}", it.ident),
            TraitItem::Const(it) => format!("{name}::const {}: {}", it.ident, text(&it.ty)),
            _ => continue,
        });
    }
}

/// Methods and constants of a public type, and the traits that it has.
fn implementation(it: &ItemImpl, types: &BTreeSet<String>, lines: &mut Vec<String>) {
    if !name_of(&it.self_ty).is_some_and(|name| types.contains(&name)) {
        return;
    }
    let of = text(&it.self_ty);
    if let Some((path, _)) = &it.trait_ {
        lines.push(with(&it.attrs, &format!("impl {} for {of}", text(path))));
        return;
    }
    for item in &it.items {
        match item {
            ImplItem::Fn(it) if is_public(&it.vis) && !is_inside(&it.attrs) => {
                lines.push(with(&it.attrs, &format!("{of}::{}", text(&it.sig))));
            }
            ImplItem::Const(it) if is_public(&it.vis) => {
                lines.push(format!("{of}::const {}: {}", it.ident, text(&it.ty)));
            }
            _ => {}
        }
    }
}

fn public_type(item: &Item) -> Option<String> {
    match item {
        Item::Struct(it) if is_public(&it.vis) => Some(it.ident.to_string()),
        Item::Enum(it) if is_public(&it.vis) => Some(it.ident.to_string()),
        _ => None,
    }
}

fn name_of(of: &Type) -> Option<String> {
    let Type::Path(path) = of else { return None };
    Some(path.path.segments.last()?.ident.to_string())
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

/// For tests, or for the other crates.
fn is_inside(attributes: &[Attribute]) -> bool {
    let is_for_tests = |it: &Attribute| it.path().is_ident("cfg") && text(it).contains("test");
    attributes.iter().any(is_for_tests) || is_hidden(attributes)
}

fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|it| it.path().is_ident("doc") && text(it).contains("hidden"))
}

/// A declaration behind those of its attributes that users notice.
fn with(attributes: &[Attribute], declaration: &str) -> String {
    let shown = |it: &&Attribute| {
        ["cfg", "derive", "non_exhaustive", "must_use", "deprecated"]
            .iter()
            .any(|name| it.path().is_ident(name))
    };
    let shown = attributes.iter().filter(shown).map(|it| match &it.meta {
        // Its text is a message.
        Meta::NameValue(_) => format!("#[{}] ", text(it.path())),
        _ => format!("{} ", text(it)),
    });
    shown.collect::<String>() + declaration
}

/// Tokens with spaces where people write them.
fn text(tokens: &impl ToTokens) -> String {
    const TIGHT: [(&str, &str); 14] = [
        (" :: ", "::"),
        (":: ", "::"),
        (" ::", "::"),
        (" < ", "<"),
        (" >", ">"),
        ("< ", "<"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        (" ,", ","),
        (" : ", ": "),
        ("& ", "&"),
        ("# [", "#["),
        (" ;", ";"),
    ];
    let spaced = tokens.to_token_stream().to_string();
    TIGHT
        .iter()
        .fold(spaced, |text, (from, to)| text.replace(from, to))
        .trim_end_matches(',')
        .to_owned()
}
