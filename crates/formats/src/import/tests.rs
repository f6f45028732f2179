//! The tables of `docs/bench.md` that list the options of other tools.

use super::{diskspd, fio, vdbench};
use std::path::Path;

/// Compares the text between `<!-- name -->` and `<!-- end of name -->` with the tables. With
/// `WEFT_WRITE_DOCS=1` they are written instead.
#[test]
fn the_page_has_every_option() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bench.md");
    let mut text = std::fs::read_to_string(&path).unwrap().replace("\r\n", "\n");
    let writes = std::env::var("WEFT_WRITE_DOCS").is_ok_and(|value| value == "1");
    for (name, table) in [
        ("fio-options", fio::options::tables()),
        ("fio-engines", fio::engines::table()),
        ("diskspd-options", diskspd::options::table()),
        ("vdbench-options", vdbench::options::tables()),
    ] {
        let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
        let (before, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("no {begin}"));
        let (shown, after) = rest.split_once(&end).unwrap_or_else(|| panic!("no {end}"));
        let wanted = format!("\n{}\n\n", table.trim_end());
        let is_shown = shown == wanted;
        assert!(
            is_shown || writes,
            "docs/bench.md does not have the table {name}; run this test with WEFT_WRITE_DOCS=1"
        );
        text = format!("{before}{begin}{wanted}{end}{after}");
    }
    if writes {
        std::fs::write(&path, text).unwrap();
    }
}
