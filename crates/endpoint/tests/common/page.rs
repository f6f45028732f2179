//! Tables of the documentation that tests know: between two marks of a page, line by line.

use std::fs;
use std::path::Path;

/// One line of a table.
pub fn row(cells: &[&str]) -> String {
    format!("| {} |", cells.join(" | "))
}

/// Compares the table between `<!-- name -->` and `<!-- end of name -->` with these rows. With
/// `WEFT_WRITE_DOCS=1` it is written instead.
pub fn check_page(page: &str, name: &str, head: &[&str], rows: impl Iterator<Item = String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        .replace("\r\n", "\n");
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("{page} lacks {begin}"));
    let (shown, after) = rest.split_once(&end).unwrap_or_else(|| panic!("{page} lacks {end}"));
    let rule = row(&vec!["---"; head.len()]);
    let lines: Vec<String> = [row(head), rule].into_iter().chain(rows).collect();
    let table = format!("\n{}\n\n", lines.join("\n"));
    if std::env::var("WEFT_WRITE_DOCS").is_ok_and(|value| value == "1") {
        return fs::write(&path, format!("{before}{begin}{table}{end}{after}")).unwrap();
    }
    assert!(
        shown == table,
        "docs/{page} does not show the table of the test; run it with WEFT_WRITE_DOCS=1"
    );
}
