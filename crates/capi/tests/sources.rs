//! Rules for the functions of the library, read from its sources.

use crate::built::here;

/// The functions that programs call: name, and the first line of the body.
fn functions() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(here().join("src/ffi")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for part in text.split("#[unsafe(no_mangle)]").skip(1) {
            let (_, rest) = part.split_once("fn ").expect("a function");
            let name = rest.split('(').next().unwrap().to_owned();
            let (_, body) = rest.split_once("{\n").expect("a body");
            found.push((name, body.lines().next().unwrap().trim().to_owned()));
        }
    }
    found
}

#[test]
fn no_function_lets_a_panic_out() {
    let all = functions();
    assert!(all.len() > 30);
    for (name, first) in all {
        assert!(first.starts_with("guard::"), "{name} begins with {first}");
    }
}

#[test]
fn the_page_has_all_options_properties_and_counters() {
    let page = std::fs::read_to_string(here().join("../../docs/libweft.md")).unwrap();
    let in_first_column = |name: &str| {
        let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
        rows.filter_map(|row| row.split(" | ").next())
            .any(|cell| cell.split(", ").any(|one| one == format!("`{name}`")))
    };
    for file in ["options.rs", "properties.rs", "target.rs"] {
        let text = std::fs::read_to_string(here().join("src").join(file)).unwrap();
        let names = text.lines().filter_map(|line| line.strip_prefix("    (\""));
        let names: Vec<&str> = names.filter_map(|rest| rest.split('"').next()).collect();
        assert!(names.len() > 5, "{file}");
        let missing: Vec<_> = names.into_iter().filter(|name| !in_first_column(name)).collect();
        assert_eq!(missing, [""; 0], "{file}: names that docs/libweft.md lacks");
    }
}
