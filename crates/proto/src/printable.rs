//! Prints text of a peer safely.

use crate::limits::PRINTABLE_CHARS_MAX;
use core::fmt;

/// A peer's text, for logs and terminals: control characters, and those that turn the direction of
/// text or end a line, become `\u{…}`; a long text is cut to its first [`PRINTABLE_CHARS_MAX`]
/// characters and `…`. Everything else comes as it is, so what is shown is not meant to be read
/// back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Printable<'a>(pub &'a str);

/// The same of a line as a whole, which is not shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrintableLine<'a>(pub &'a str);

/// Characters that change what stands around them.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(PRINTABLE_CHARS_MAX) {
            Some((end, _)) => write!(f, "{}…", PrintableLine(&self.0[..end])),
            None => PrintableLine(self.0).fmt(f),
        }
    }
}

impl fmt::Display for PrintableLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(is_hidden) {
            let (plain, from) = rest.split_at(at);
            f.write_str(plain)?;
            let mut characters = from.chars();
            characters.next().into_iter().try_for_each(|c| write!(f, "{}", c.escape_unicode()))?;
            rest = characters.as_str();
        }
        f.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_escaped() {
        for (text, shown) in [
            ("nqn.2014-08.org.example:disk 1", "nqn.2014-08.org.example:disk 1"),
            ("Größe 大", "Größe 大"),
            ("a\nERROR all is lost", "a\\u{a}ERROR all is lost"),
            ("\u{1b}[2J\u{7f}\u{9b}", "\\u{1b}[2J\\u{7f}\\u{9b}"),
            ("disk\u{202e}gpj", "disk\\u{202e}gpj"),
            ("", ""),
        ] {
            assert_eq!(
                (Printable(text).to_string(), PrintableLine(text).to_string()),
                (shown.to_owned(), shown.to_owned())
            );
        }
    }

    #[test]
    fn what_is_long_is_shortened() {
        let long = "é".repeat(PRINTABLE_CHARS_MAX);
        assert_eq!(Printable(&long).to_string(), long);
        assert_eq!(Printable(&format!("{long}\u{1b}")).to_string(), format!("{long}…"));
        assert!(PrintableLine(&long.repeat(2)).to_string() == long.repeat(2));
    }
}
