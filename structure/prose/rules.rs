//! Patterns of sentences that read like a translation. Each has a plain form that is shorter.

use super::text::{Block, Kind, Word};

/// A fault: its line, and the pattern with what to write instead.
pub type Fault = (usize, String);

/// First words of a clause that stands for a noun.
const CLAUSE: [&str; 7] = ["what", "who", "whether", "how", "whose", "which", "where"];

const NEGATIONS: [&str; 9] =
    ["not", "no", "never", "nobody", "nothing", "none", "cannot", "neither", "without"];

/// Words that follow an adverb at the end of its clause.
const NEXT_PART: [&str; 27] = [
    "in", "of", "by", "on", "for", "to", "and", "at", "with", "than", "from", "when", "if",
    "until", "but", "or", "as", "there", "here", "which", "that", "then", "because", "while",
    "after", "before", "where",
];

/// Objects of `tell` where `report` or `return` is meant.
const TOLD: [&str; 11] =
    ["of", "how", "which", "what", "whether", "when", "where", "who", "whose", "nothing", "that"];

/// Comparisons that `no` denies in plain English, too.
const AFTER_NO: [&str; 18] = [
    "longer",
    "more",
    "less",
    "smaller",
    "larger",
    "greater",
    "faster",
    "slower",
    "better",
    "worse",
    "different",
    "other",
    "later",
    "earlier",
    "need",
    "use",
    "such",
    "reason",
];

const FORMS_OF_BE: [&str; 4] = ["is", "are", "was", "were"];

/// Words of a block around one of them.
struct Around<'a> {
    words: &'a [Word],
    at: usize,
    /// The sentence has a negation before.
    is_denied: bool,
}

impl Around<'_> {
    /// A word behind this one in the same part of the sentence, or "".
    fn next(&self, by: usize) -> &str {
        let words = self.words.get(self.at..=self.at + by).unwrap_or_default();
        let is_together = words.iter().take(by).all(|word| word.after.is_empty());
        words.last().filter(|_| is_together).map_or("", |word| &word.text)
    }

    /// The word before this one in the same sentence, or "".
    fn previous(&self) -> &str {
        let is_first = self.words[self.at].is_first || self.at == 0;
        if is_first { "" } else { &self.words[self.at - 1].text }
    }

    /// Returns whether the clause ends behind a word.
    fn ends(&self, by: usize) -> bool {
        let is_marked = self.words.get(self.at + by).is_none_or(|word| !word.after.is_empty());
        is_marked || self.next(by + 1).is_empty() || NEXT_PART.contains(&self.next(by + 1))
    }

    /// Returns whether a comma comes before the end of the sentence.
    fn is_fronted(&self) -> bool {
        let marks = self.words[self.at..].iter().map(|word| word.after.as_str());
        let mut marks = marks.filter(|after| after.contains([',', '.', '!', '?', ':']));
        marks.next().is_some_and(|after| after.contains(','))
    }

    /// The pattern that begins with this word.
    fn pattern(&self, kind: Kind) -> Option<(&'static str, &'static str)> {
        let next = self.next(1);
        let is_be = FORMS_OF_BE.contains(&&*self.words[self.at].text);
        Some(match self.words[self.at].text.as_str() {
            "so" if self.is_number() => ("so many, so much, so long", "the number itself: n"),
            _ if (is_be || self.words[self.at].text == "be")
                && [next, self.next(2)] == ["to", "be"] =>
            {
                ("is to be", "must be, will be")
            }
            "any" if self.is_denied && next == "more" && self.ends(1) => ("any more", "no longer"),
            "anymore" => ("any more", "no longer"),
            "no" if next == "more" && self.ends_with_mark(1) => ("no more", "no longer"),
            "anew" => ("anew", "again, new"),
            "meanwhile" => ("meanwhile", "in the meantime, until then"),
            "besides" => ("besides", "also"),
            "beside" => ("beside", "next to, compared with, in addition to"),
            "likewise" => ("likewise", "also, the same"),
            "of" if self.is_front(kind) => ("Of ..., at the front", "the noun first"),
            "of" if next == "before" && self.ends(1) => ("of before", "previous"),
            "what" if self.is_outcome() => ("what came of it", "the outcome"),
            "told" if next == "of" => ("told of", "notified"),
            "told" if self.is_passive() => ("is told", "gets, receives, is notified"),
            "tell" | "tells" if TOLD.contains(&next) => ("tells of", "reports, returns"),
            "say" | "says" | "said" if next == "of" => ("says of", "reports, returns"),
            _ if is_be && self.is_denied_noun() => ("is no ..., is none", "is not a ..."),
            _ => return None,
        })
    }

    fn is_number(&self) -> bool {
        let is_long = self.next(1) == "long" && self.next(2) != "as";
        (is_long || ["many", "much"].contains(&self.next(1)))
            && !["not", "ever"].contains(&self.previous())
    }

    fn ends_with_mark(&self, by: usize) -> bool {
        self.words.get(self.at + by).is_some_and(|word| !word.after.is_empty())
            || self.at + by + 1 == self.words.len()
    }

    /// Returns whether it begins a sentence; cells of tables are parts of sentences.
    fn is_front(&self, kind: Kind) -> bool {
        let is_first = self.words[self.at].is_first && kind != Kind::Cell;
        // Behind a colon it may begin a list.
        let before = self.at.checked_sub(1).map_or("", |before| &self.words[before].after);
        is_first && !before.contains(':') && self.next(1) != "course" && self.is_fronted()
    }

    fn is_outcome(&self) -> bool {
        ["came", "comes", "became", "becomes"].contains(&self.next(1)) && self.next(2) == "of"
    }

    fn is_passive(&self) -> bool {
        let is_passive = FORMS_OF_BE.contains(&self.previous())
            || ["be", "been", "being"].contains(&self.previous());
        // "Hosts are told to try again" is plain, "a change is told to hosts" is not.
        let objects = ["all", "each", "every", "hosts", "it", "others", "the", "them"];
        let is_order = self.next(1) == "to" && !objects.contains(&self.next(2));
        is_passive && !is_order && !["from", "apart"].contains(&self.next(1))
    }

    fn is_denied_noun(&self) -> bool {
        let noun = self.next(2);
        let is_noun = self.next(1) == "no"
            && noun.starts_with(|letter: char| letter.is_alphabetic())
            && !AFTER_NO.contains(&noun);
        (is_noun || self.next(1) == "none") && !["there", "where"].contains(&self.previous())
    }
}

/// The faults of a block. `is_opening`: it begins a comment.
pub fn faults(block: &Block, is_opening: bool) -> Vec<Fault> {
    let words = &block.words;
    let is_opening = is_opening || block.kind == Kind::Heading;
    let mut found = Vec::from_iter(opening(words).filter(|_| is_opening));
    let mut is_denied = false;
    for (at, word) in words.iter().enumerate() {
        is_denied &= !word.is_first;
        is_denied |= NEGATIONS.contains(&&*word.text) || word.text.ends_with("n't");
        let around = Around { words, at, is_denied };
        if let Some((pattern, instead)) = around.pattern(block.kind) {
            found.push((word.line, format!("\"{pattern}\": write {instead}")));
        }
    }
    found
}

/// The fault of a heading or of the first sentence of a comment that is a clause.
fn opening(words: &[Word]) -> Option<Fault> {
    let first = words.first().filter(|word| CLAUSE.contains(&&*word.text))?;
    let end = words.iter().position(|word| word.after.contains(['.', '!', '?', ':']));
    let sentence = &words[..end.map_or(words.len(), |end| end + 1)];
    let has = |mark: char| sentence.iter().any(|word| word.after.contains(mark));
    // "Where it differs, the first counts" has a main clause.
    let is_sentence = has('?') || ["where", "which"].contains(&&*first.text) && has(',');
    let advice = format!("\"{} ...\" at the beginning: write a noun, or a verb first", first.text);
    (!is_sentence).then_some((first.line, advice))
}

/// The fault of an entry of the changelog, which must begin with the kind of change.
pub fn entry(block: &Block) -> Option<Fault> {
    let first = block.words.first().filter(|_| block.kind == Kind::Bullet)?;
    let verbs = ["say", "tell", "ask", "let", "keep", "look", "have"];
    verbs.contains(&&*first.text).then(|| {
        (first.line, format!("\"{} ...\": write Add, Fix, Report, Show or Reject", first.text))
    })
}
