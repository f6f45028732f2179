//! The form of tgt's configurations: lines `KEY VALUE`, and parts `<KIND NAME>` … `</KIND>` that
//! have such lines and parts.

/// Parts in each other, at most; there are two of use.
const DEPTH_MAX: usize = 8;

/// A part.
#[derive(Debug, Default)]
pub struct Part {
    /// The word in its brackets.
    pub kind: String,
    /// What follows that.
    pub name: String,
    /// Its lines: keys with values.
    pub options: Vec<(String, String)>,
    /// Parts in it.
    pub parts: Vec<Part>,
}

impl Part {
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
}

/// The parts of a text, in one that has no name.
///
/// # Errors
/// A part does not end, or what does not begin ends.
pub fn parts(text: &str) -> Result<Part, String> {
    let mut open = vec![Part::default()];
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(kind) = line.strip_prefix("</").and_then(|rest| rest.strip_suffix('>')) {
            let is_it = open.last().is_some_and(|part| open.len() > 1 && part.kind == kind.trim());
            match open.pop().filter(|_| is_it).zip(open.last_mut()) {
                Some((part, above)) => above.parts.push(part),
                None => {
                    return Err(format!("line {number} ends {kind}, which does not begin there"));
                }
            }
        } else if let Some(head) = line.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
            if open.len() > DEPTH_MAX {
                return Err(format!("line {number} begins a part in too many others"));
            }
            let (kind, name) = split(head);
            open.push(Part { kind, name, ..Part::default() });
        } else if let Some(part) = open.last_mut() {
            part.options.push(split(line));
        }
    }
    match open.len() {
        1 => Ok(open.remove(0)),
        _ => Err(format!("the part {} has no end", open[open.len() - 1].kind)),
    }
}

/// A word, and what follows it without quotation marks.
fn split(line: &str) -> (String, String) {
    let (word, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
    let rest = rest.trim();
    let plain = rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(rest);
    (word.to_owned(), plain.to_owned())
}
