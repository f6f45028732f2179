//! Imports between the files of a crate.
//!
//! A path is followed to the file that defines its item, also through the re-exports of other
//! modules. A module that only declares or re-exports its child does not use it.

use std::collections::{BTreeMap, BTreeSet};

use syn::{
    Item, ItemMod, ItemUse, Macro, UseTree, Visibility,
    visit::{self, Visit},
};

use crate::{files, tokens};

/// Names of modules from the root of the crate.
type Module = Vec<String>;

/// How many re-exports are followed.
const REEXPORTS: usize = 8;

/// What a module holds.
#[derive(Default)]
struct Content {
    file: String,
    items: BTreeSet<String>,
    /// What `use` brings in, by its name here.
    bindings: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
}

/// A mention of a path, in a module.
struct Mention {
    module: Module,
    path: Vec<String>,
    /// For a `pub use`, the name by which the file has to mention it itself to use it.
    reexported: Option<String>,
}

/// The files of a crate and what they mention.
#[derive(Default)]
struct Crate {
    modules: BTreeMap<Module, Content>,
    mentions: BTreeMap<String, Vec<Mention>>,
    /// The names that each file mentions outside of `use`.
    names: BTreeMap<String, BTreeSet<String>>,
}

/// Reads one file into its crate.
struct Reader<'a> {
    of: &'a mut Crate,
    file: String,
    module: Module,
}

impl Reader<'_> {
    fn content(&mut self) -> &mut Content {
        let content = self.of.modules.entry(self.module.clone()).or_default();
        content.file.clone_from(&self.file);
        content
    }

    fn mention(&mut self, path: Vec<String>, reexported: Option<String>) {
        let mention = Mention { module: self.module.clone(), path, reexported };
        self.of.mentions.entry(self.file.clone()).or_default().push(mention);
    }

    fn path(&mut self, path: Vec<String>) {
        // The `self` of a method, or the reach of a `pub(super)` in a macro.
        if matches!(&path[..], [only] if only == "self" || only == "super") {
            return;
        }
        let names = self.of.names.entry(self.file.clone()).or_default();
        names.insert(path[0].clone());
        self.mention(path, None);
    }

    fn bind(&mut self, tree: &UseTree, stem: &[String], public: bool) {
        let with = |name: &syn::Ident| [stem, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.bind(&path.tree, &with(&path.ident), public),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.bind(tree, stem, public);
                }
            }
            UseTree::Glob(_) => {
                self.content().globs.push(stem.to_vec());
                if !public {
                    self.mention(stem.to_vec(), None);
                }
            }
            UseTree::Name(name) if name.ident == "self" => {
                self.bound(stem.last().expect("`self` has a stem").clone(), stem.to_vec(), public);
            }
            UseTree::Name(name) => self.bound(name.ident.to_string(), with(&name.ident), public),
            UseTree::Rename(name) => {
                self.bound(name.rename.to_string(), with(&name.ident), public);
            }
        }
    }

    fn bound(&mut self, name: String, path: Vec<String>, public: bool) {
        self.content().bindings.insert(name.clone(), path.clone());
        self.mention(path, public.then_some(name));
    }
}

impl<'a> Visit<'a> for Reader<'_> {
    fn visit_item_use(&mut self, item: &'a ItemUse) {
        // A link of the documentation uses nothing.
        if item.attrs.iter().any(|attribute| tokens::requires(attribute, "doc")) {
            return;
        }
        let public = !matches!(item.vis, Visibility::Inherited);
        self.bind(&item.tree, &[], public);
    }

    fn visit_item(&mut self, item: &'a Item) {
        let name = match item {
            Item::Const(item) => Some(&item.ident),
            Item::Enum(item) => Some(&item.ident),
            Item::Fn(item) => Some(&item.sig.ident),
            Item::Static(item) => Some(&item.ident),
            Item::Struct(item) => Some(&item.ident),
            Item::Trait(item) => Some(&item.ident),
            Item::Type(item) => Some(&item.ident),
            _ => None,
        };
        if let Some(name) = name {
            self.content().items.insert(name.to_string());
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        let is_of_tests = |attribute| tokens::requires(attribute, "test");
        if item.content.is_some() && !item.attrs.iter().any(is_of_tests) {
            self.module.push(item.ident.to_string());
            self.content();
            visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }

    // The reach of a `pub(…)` uses nothing.
    fn visit_visibility(&mut self, _: &'a Visibility) {}

    fn visit_path(&mut self, path: &'a syn::Path) {
        self.path(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'a Macro) {
        for path in tokens::paths_in(item.tokens.clone()) {
            self.path(path);
        }
    }
}

impl Crate {
    /// Reads the files below a directory; tests are left out.
    fn read(directory: &str) -> Self {
        let mut of = Self::default();
        let has_library = files::root().join(directory).join("lib.rs").exists();
        for (path, text) in files::below(directory, "rs") {
            let inner = path.strip_prefix(directory).unwrap().trim_start_matches('/');
            if inner.ends_with("tests.rs") || inner.contains("tests/") {
                continue;
            }
            of.add(&path, module_of(inner, has_library), &text);
        }
        of
    }

    fn add(&mut self, file: &str, module: Module, text: &str) {
        let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        let mut reader = Reader { of: self, module, file: file.to_owned() };
        reader.content();
        reader.visit_file(&parsed);
    }

    /// The module and the item that a path ends at, if it is of this crate.
    fn resolve(&self, from: &Module, path: &[String], left: usize) -> Option<Module> {
        let mut at = from.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => drop(at.pop()?),
            first => {
                let child = [&at[..], &[first.to_owned()]].concat();
                let content = self.modules.get(&at)?;
                // A module alone is no expression and no type: this is a variable of its name.
                if path.len() == 1 && !content.bindings.contains_key(first) {
                    return None;
                }
                if !self.modules.contains_key(&child) && !content.bindings.contains_key(first) {
                    return None;
                }
                return self.descend(at, rest, left);
            }
        }
        rest = &rest[1..];
        while rest.first().is_some_and(|name| name == "super") {
            at.pop()?;
            rest = &rest[1..];
        }
        self.descend(at, rest, left)
    }

    /// Goes down from a module, and through its re-exports.
    fn descend(&self, mut at: Module, path: &[String], left: usize) -> Option<Module> {
        for (step, name) in path.iter().enumerate() {
            let child = [&at[..], std::slice::from_ref(name)].concat();
            if self.modules.contains_key(&child) {
                at = child;
                continue;
            }
            let content = self.modules.get(&at)?;
            if content.items.contains(name) || left == 0 {
                return Some(at);
            }
            if let Some(bound) = content.bindings.get(name) {
                // A binding to itself is an item of another crate.
                let whole = [&bound[..], &path[step + 1..]].concat();
                return (bound[0] != *name).then(|| self.resolve(&at, &whole, left - 1))?;
            }
            let globs = content.globs.iter().filter_map(|glob| self.resolve(&at, glob, left - 1));
            let holder = globs.into_iter().find(|module| self.holds(module, name));
            return Some(holder.unwrap_or(at));
        }
        Some(at)
    }

    fn holds(&self, module: &Module, name: &str) -> bool {
        self.modules.get(module).is_some_and(|content| content.items.contains(name))
    }

    /// The files that a file uses, and by which names.
    fn uses(&self, file: &str) -> BTreeMap<String, BTreeSet<String>> {
        let names = self.names.get(file);
        let own = |name: &String| names.is_some_and(|names| names.contains(name));
        let mut uses = BTreeMap::<String, BTreeSet<String>>::new();
        for mention in self.mentions.get(file).into_iter().flatten() {
            if !mention.reexported.as_ref().is_none_or(own) {
                continue;
            }
            let module = self.resolve(&mention.module, &mention.path, REEXPORTS);
            let used = module.map(|module| self.modules[&module].file.clone());
            if let Some(used) = used.filter(|used| used != file) {
                uses.entry(used).or_default().extend(mention.path.last().cloned());
            }
        }
        uses
    }
}

/// The module that a file holds, by its path below `src`. A program is the root of its crate if
/// there is no library; beside one, nothing can use it.
fn module_of(inner: &str, has_library: bool) -> Module {
    if inner == "lib.rs" || inner == "main.rs" && !has_library {
        return Vec::new();
    }
    let path = inner.trim_end_matches(".rs");
    path.strip_suffix("/mod").unwrap_or(path).split('/').map(str::to_owned).collect()
}

/// Each file of a crate with the files that it uses, and by which names.
pub fn named_of_crate(directory: &str) -> BTreeMap<String, BTreeMap<String, BTreeSet<String>>> {
    let of = Crate::read(directory);
    let files: BTreeSet<_> = of.modules.values().map(|content| content.file.clone()).collect();
    files.into_iter().map(|file| (file.clone(), of.uses(&file))).collect()
}

/// Each file of a crate with the files that it uses.
pub fn of_crate(directory: &str) -> BTreeMap<String, BTreeSet<String>> {
    let named = named_of_crate(directory);
    named.into_iter().map(|(file, uses)| (file, uses.into_keys().collect())).collect()
}

#[test]
fn follows_reexports_and_does_not_count_them() {
    let mut of = Crate::default();
    of.add("lib", Vec::new(), "mod a; mod b; pub use a::Item; pub use b::make; fn f() { make() }");
    of.add(
        "a",
        vec!["a".to_owned()],
        "pub(in crate::b) struct Item; #[cfg(test)] mod tests { use crate::b::make; }",
    );
    of.add("b", vec!["b".to_owned()], "mod inner { use super::super::Item; } pub fn make() {}");
    let uses = |file: &str| of.uses(file).into_keys().collect::<Vec<_>>();
    assert_eq!(uses("lib"), ["b"]);
    assert_eq!(uses("b"), ["a"]);
    assert!(uses("a").is_empty());
}
