//! The header declares the functions of the sources, with their comments. What cbindgen makes is
//! compared with all of the header in `header.rs`, which takes longer.

use crate::built::here;

/// A function of the sources as the header has to have it: its comment, and its declaration in one
/// line.
struct Function {
    comment: String,
    declaration: String,
}

/// A type of Rust in C; `None` if it is not known here.
fn in_c(rust: &str) -> Option<String> {
    if let Some(to) = rust.strip_prefix("*const ") {
        return Some(format!("const {} *", in_c(to)?));
    }
    if let Some(to) = rust.strip_prefix("*mut ") {
        return Some(format!("{} *", in_c(to)?));
    }
    Some(match rust {
        "c_char" => "char".into(),
        "c_int" => "int".into(),
        "c_void" => "void".into(),
        "i64" => "int64_t".into(),
        "u32" => "uint32_t".into(),
        "u64" => "uint64_t".into(),
        "usize" => "size_t".into(),
        "WeftLog" => "weft_log".into(),
        "Completion" => "struct weft_completion".into(),
        _ => format!("struct weft_{}", rust.strip_prefix("Weft")?.to_lowercase()),
    })
}

/// A name with its type, as C writes it.
fn declared(name: &str, rust: &str) -> String {
    let of = in_c(rust).unwrap_or_else(|| panic!("{name}: a type for C: {rust}"));
    format!("{of} {name}").replace("* *", "**").replace("* ", "*")
}

/// The function behind its comment, up to its body.
fn function(comment: &[&str], signature: &str) -> Function {
    let (name, rest) = signature.split_once('(').expect("parameters");
    let (parameters, returned) = rest.split_once(')').expect("the end of the parameters");
    let all = parameters.split(',').map(str::trim).filter(|parameter| !parameter.is_empty());
    let all: Vec<String> = all
        .map(|parameter| parameter.split_once(": ").expect("a type"))
        .map(|(name, rust)| declared(name, rust))
        .collect();
    let all = if all.is_empty() { "void".into() } else { all.join(", ") };
    let name = match returned.trim().strip_prefix("-> ") {
        Some(rust) => declared(name, rust.trim()),
        None => format!("void {name}"),
    };
    let lines = comment.iter().map(|line| format!(" *{line}\n"));
    let comment = format!("/**\n{} */\n", lines.collect::<String>());
    Function { comment, declaration: format!("{name}({all});") }
}

/// The functions of a file.
fn functions(text: &str) -> Vec<Function> {
    let mut found = Vec::new();
    let mut comment = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        match line.strip_prefix("///") {
            Some(rest) => comment.push(rest),
            None if line == "#[unsafe(no_mangle)]" => {
                let mut signature = String::new();
                while !signature.ends_with('{') {
                    signature += lines.next().expect("a body");
                }
                let (_, rest) = signature.split_once("extern \"C\" fn ").expect("a function of C");
                found.push(function(&comment, rest.trim_end_matches('{')));
            }
            None => comment.clear(),
        }
    }
    found
}

/// Words with one space between them, and none behind an opening parenthesis.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace("( ", "(")
}

#[test]
fn the_header_has_all_functions_with_their_comments() {
    let header = std::fs::read_to_string(here().join("include/weft.h")).unwrap();
    let mut count = 0;
    for entry in std::fs::read_dir(here().join("src/ffi")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for Function { comment, declaration } in functions(&text) {
            let (_, behind) = header.split_once(&comment).unwrap_or_else(|| {
                panic!("the header lacks this comment of {declaration}\n{comment}")
            });
            let (found, _) = behind.split_once(';').expect("a declaration");
            assert_eq!(in_one_line(found) + ";", declaration);
            count += 1;
        }
    }
    let symbols = std::fs::read_to_string(here().join("symbols.txt")).unwrap();
    assert_eq!(count, symbols.lines().filter(|line| !line.starts_with('#')).count());
}

#[test]
fn types_are_written_as_c_has_them() {
    let text = "\
/// Opens it.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern \"C\" fn weft_open(
    url: *const c_char,
    disk: *mut *mut WeftDisk,
) -> c_int {
    guard::done(|| ())
}
";
    let [Function { comment, declaration }] = &functions(text)[..] else { panic!("one function") };
    assert_eq!(comment, "/**\n * Opens it.\n *\n * # Safety\n * None.\n */\n");
    assert_eq!(declaration, "int weft_open(const char *url, struct weft_disk **disk);");
}
