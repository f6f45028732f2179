//! What other users of the machine must not be able to lead elsewhere: where files are made, opened
//! for writing and given modes, and where sockets are bound.

use syn::{
    Attribute, ItemMod, ItemUse, Macro, Meta, UseTree,
    visit::{self, Visit},
};

use crate::{demand, files, tokens};

/// The functions by which all other code does it. They follow no link of another user.
const HOMES: [&str; 6] = [
    "crates/io/src/durable.rs",
    "crates/io/src/kernel_file.rs",
    "crates/io/src/output.rs",
    "crates/io/src/private_files.rs",
    "crates/io/src/secret_file.rs",
    "crates/io/src/socket_file.rs",
];

/// Other places, and why they may.
const EXCEPTIONS: [(&str, &str); 2] = [
    ("crates/block/src/file/open.rs", "a source is the file that its user names, also by a link"),
    ("crates/io/src/drives/windows.rs", "drives of Windows are in no directory"),
];

/// Ends of the paths of functions that follow links, or take a path where a descriptor is safe.
const UNSAFE: [[&str; 2]; 18] = [
    ["File", "create"],
    ["File", "options"],
    ["OpenOptions", "new"],
    ["UnixDatagram", "bind"],
    ["UnixListener", "bind"],
    ["UnixListener", "bind_addr"],
    ["fs", "chmod"],
    ["fs", "chmodat"],
    ["fs", "chown"],
    ["fs", "copy"],
    ["fs", "open"],
    ["fs", "openat"],
    ["fs", "set_permissions"],
    ["fs", "write"],
    ["libc", "chmod"],
    ["libc", "chown"],
    ["libc", "open"],
    ["libc", "openat"],
];

/// What a file uses of that, outside of its tests.
#[derive(Default)]
struct Uses(Vec<String>);

impl Uses {
    fn of(text: &str) -> Vec<String> {
        let mut uses = Self::default();
        uses.visit_file(&syn::parse_file(text).unwrap_or_else(|error| panic!("{error}")));
        uses.0
    }

    fn path(&mut self, path: &[String]) {
        if let [.., place, name] = path
            && UNSAFE.iter().any(|[of, function]| place == of && name == function)
        {
            self.0.push(format!("{place}::{name}"));
        }
    }

    fn imported(&mut self, tree: &UseTree, stem: &[String]) {
        let with = |name: &syn::Ident| [stem, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.imported(&path.tree, &with(&path.ident)),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.imported(tree, stem)),
            UseTree::Name(name) => self.path(&with(&name.ident)),
            UseTree::Rename(name) => self.path(&with(&name.ident)),
            UseTree::Glob(_) => {}
        }
    }
}

impl<'a> Visit<'a> for Uses {
    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        if !item.attrs.iter().any(is_of_tests) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        self.imported(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let path_of = path.segments.iter().map(|segment| segment.ident.to_string());
        self.path(&path_of.collect::<Vec<_>>());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'a Macro) {
        tokens::paths_in(item.tokens.clone()).iter().for_each(|path| self.path(path));
    }
}

/// Whether an attribute has a module compiled for tests only.
fn is_of_tests(attribute: &Attribute) -> bool {
    match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            let mut words = condition.split(|letter: char| !letter.is_alphanumeric());
            words.any(|word| word == "test") && !condition.contains("not")
        }
        _ => false,
    }
}

/// The sources of what users run.
fn sources() -> Vec<(String, String)> {
    let is_run = |path: &str| {
        let is_test = path.ends_with("tests.rs") || path.contains("/tests/");
        path.contains("/src/") && !is_test && !path.contains("testing/")
    };
    files::below("crates", "rs").into_iter().filter(|(path, _)| is_run(path)).collect()
}

#[test]
fn files_are_written_where_nobody_else_leads() {
    let is_allowed =
        |path: &str| HOMES.contains(&path) || EXCEPTIONS.iter().any(|(place, _)| *place == path);
    let mut faults = Vec::new();
    for (path, text) in sources().iter().filter(|(path, _)| !is_allowed(path)) {
        faults.extend(Uses::of(text).into_iter().map(|name| format!("{path}: {name}")));
    }
    let rule = "another user could have put a link there: use `weft_io::durable`, `private_files`, \
                `secret_file`, `output`, `kernel_file` or `socket_file`";
    demand(rule, faults);
}

#[test]
fn each_home_and_exception_is_needed() {
    let sources = sources();
    let listed = HOMES.into_iter().chain(EXCEPTIONS.map(|(path, _)| path));
    let faults = listed.filter(|listed| {
        !sources.iter().any(|(path, text)| path == listed && !Uses::of(text).is_empty())
    });
    demand("remove it from the lists in local_users.rs", faults.map(str::to_owned).collect());
}

#[test]
fn finds_calls_imports_and_macros_but_no_tests() {
    let found = Uses::of(
        "use std::{fs::{File, write}, io};
         fn f() { fs::write(p, b); let o = std::fs::OpenOptions::new(); vec![File::create(p)]; }
         fn g() { File::open(p); file.write(b); file.set_permissions(m); OpenOptions::default(); }
         #[cfg(all(test, unix))] mod tests { fn h() { fs::write(p, b) } }
         mod system { fn i() { UnixListener::bind(p) } }",
    );
    let expected =
        ["fs::write", "fs::write", "OpenOptions::new", "File::create", "UnixListener::bind"];
    assert_eq!(found, expected);
}
