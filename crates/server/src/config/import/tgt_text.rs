//! The form of tgt's configurations, that of Perl's Config::General: lines `KEY VALUE` or
//! `KEY = VALUE`, and parts `<KIND NAME>` … `</KIND>` that have such lines and parts. Parts of the
//! same kind and name are one. `#` begins a comment, unless a backslash precedes it; `/*` at the
//! begin of a line begins one that ends with `*/`. A line that ends with a backslash continues.

/// Parts in each other, at most; there are two of use.
const DEPTH_MAX: usize = 8;

/// A part.
#[derive(Debug, Default)]
pub struct TgtPart {
    /// The word in its brackets.
    pub kind: String,
    /// The text behind that word.
    pub name: String,
    /// Its lines: keys with values.
    pub options: Vec<(String, String)>,
    /// Parts in it.
    pub parts: Vec<TgtPart>,
}

impl TgtPart {
    /// The value of a key; of several the first.
    pub fn option(&self, key: &str) -> Option<&str> {
        self.all(key).next()
    }

    /// All values of a key.
    pub fn all<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a str> {
        self.options.iter().filter(move |(is, _)| is == key).map(|(_, value)| value.as_str())
    }

    /// The parts of a kind, with their names.
    pub fn named<'a>(&'a self, kind: &str) -> impl Iterator<Item = (&'a str, &'a Self)> {
        self.parts.iter().filter(move |part| part.kind == kind).map(|part| (&*part.name, part))
    }

    /// Adds a part, or its content to the one with the same kind and name.
    fn add(&mut self, part: Self) {
        let same = |of: &&mut Self| (&of.kind, &of.name) == (&part.kind, &part.name);
        match self.parts.iter_mut().find(same) {
            Some(known) => {
                known.options.extend(part.options);
                part.parts.into_iter().for_each(|part| known.add(part));
            }
            None => self.parts.push(part),
        }
    }
}

/// The lines of a text, without comments, and those that continue as one. Each has the number of
/// its last line.
fn lines(text: &str) -> Vec<(usize, String)> {
    let (mut all, mut begun, mut is_comment) = (Vec::new(), String::new(), false);
    for (number, line) in (1..).zip(text.lines()) {
        let line = match (is_comment, line.trim_start().starts_with("/*")) {
            (false, false) => line,
            _ => {
                let end = line.find("*/").map(|at| &line[at + 2..]);
                is_comment = end.is_none();
                end.unwrap_or_default()
            }
        };
        let line = without_comment(line);
        match line.trim_end().strip_suffix('\\') {
            Some(rest) => begun.push_str(rest),
            None => {
                begun.push_str(&line);
                all.push((number, core::mem::take(&mut begun).trim().to_owned()));
            }
        }
    }
    all.push((text.lines().count(), begun.trim().to_owned()));
    all.retain(|(_, line)| !line.is_empty());
    all
}

/// A line up to its comment.
fn without_comment(line: &str) -> String {
    let mut kept = String::new();
    for c in line.chars() {
        match c {
            '#' if kept.ends_with('\\') => {
                kept.pop();
                kept.push('#');
            }
            '#' => break,
            other => kept.push(other),
        }
    }
    kept
}

/// The parts of a text, in one that has no name.
///
/// # Errors
/// A part does not end, or what does not begin ends.
pub fn parts(text: &str) -> Result<TgtPart, String> {
    let mut open = vec![TgtPart::default()];
    for (number, line) in lines(text) {
        if let Some(kind) = line.strip_prefix("</").and_then(|rest| rest.strip_suffix('>')) {
            let is_it = open.last().is_some_and(|part| open.len() > 1 && part.kind == kind.trim());
            match open.pop().filter(|_| is_it).zip(open.last_mut()) {
                Some((part, above)) => above.add(part),
                None => {
                    return Err(format!("line {number} ends {kind}, which does not begin there"));
                }
            }
        } else if let Some(head) = line.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
            if open.len() > DEPTH_MAX {
                return Err(format!("line {number} begins a part in too many others"));
            }
            let (kind, name) = split(head);
            open.push(TgtPart { kind, name, ..TgtPart::default() });
        } else if let Some(part) = open.last_mut() {
            let (key, value) = split(&line);
            if value.starts_with("<<") {
                return Err(format!(
                    "line {number} has a value of several lines: write it in one line"
                ));
            }
            part.options.push((key, value));
        }
    }
    match open.len() {
        1 => Ok(open.remove(0)),
        _ => Err(format!("the part {} has no end", open[open.len() - 1].kind)),
    }
}

/// A word, and what follows it without an equals sign and quotation marks.
fn split(line: &str) -> (String, String) {
    let is_end = |c: char| c.is_whitespace() || c == '=';
    let line = line.trim();
    let (word, rest) = line.split_at(line.find(is_end).unwrap_or(line.len()));
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('=').unwrap_or(rest).trim();
    let plain = rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(rest);
    (word.to_owned(), plain.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_no_lines_and_long_lines_are_one() {
        let text =
            "# a\n  key = 1 # b\n/* <target x>\n  key 2\n*/ other \\#3\n/* c */\nlong a\\\n  b\n";
        let root = parts(text).unwrap();
        let found: Vec<_> =
            root.options.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(found, [("key", "1"), ("other", "#3"), ("long", "a  b")]);
        assert!(root.parts.is_empty());
    }

    #[test]
    fn parts_with_the_same_name_are_one() {
        let root = parts(
            "<target a>\nincominguser x y\n<backing-store /s>\nlun 2\n</backing-store>\n</target>\n\
             <target a>\ninitiator-address 192.0.2.1\n<backing-store /s>\nreadonly 1\n</backing-store>\n</target>\n\
             <target b>\n</target>\n",
        )
        .unwrap();
        let [a, b] = &root.parts[..] else { panic!("{root:?}") };
        assert_eq!((a.options.len(), b.options.len(), a.parts.len()), (2, 0, 1));
        assert_eq!(a.parts[0].option("readonly"), Some("1"));
        assert_eq!(a.parts[0].option("lun"), Some("2"));
    }

    #[test]
    fn values_of_several_lines_are_refused() {
        let why = parts("key <<END\nvalue\nEND\n").unwrap_err();
        assert!(why.starts_with("line 1 has a value of several lines"), "{why}");
    }
}
