//! Several replacements in one text, each by its place in the text as it was.

use std::{cmp::Reverse, ops::Range};

use anyhow::{Result, bail};

/// A replacement, of these bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splice {
    /// Its place in the original text.
    pub bytes: Range<usize>,
    /// Its replacement.
    pub text: String,
}

/// The text with all replacements; fails if two of them overlap.
pub fn splice(text: &str, mut splices: Vec<Splice>) -> Result<String> {
    splices.sort_by_key(|splice| Reverse(splice.bytes.start));
    let (mut edited, mut least) = (text.to_owned(), text.len());
    for Splice { bytes, text: new } in splices {
        if bytes.end > least {
            bail!("two edits of the same text: {:?}", &text[bytes]);
        }
        least = bytes.start;
        edited.replace_range(bytes, &new);
    }
    Ok(edited)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(bytes: Range<usize>, text: &str) -> Splice {
        Splice { bytes, text: text.into() }
    }

    #[test]
    fn places_are_those_of_the_text_as_it_was() {
        let splices = vec![at(0..1, "one"), at(4..5, "five"), at(2..2, "+")];
        assert_eq!(splice("abcdef", splices).unwrap(), "oneb+cdfivef");
    }

    #[test]
    fn what_overlaps_is_refused() {
        let error = splice("abcdef", vec![at(0..3, ""), at(2..4, "")]).unwrap_err();
        assert_eq!(error.to_string(), "two edits of the same text: \"abc\"");
    }
}
