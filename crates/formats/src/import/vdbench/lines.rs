//! The lines of a parameter file, and the definitions in them.

/// A definition: its name, and its parameters in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Definition {
    pub name: String,
    pub at: usize,
    pub parameters: Vec<(String, Vec<String>)>,
}

impl Definition {
    pub fn get(&self, name: &str) -> Option<&[String]> {
        self.parameters
            .iter()
            .rev()
            .find(|(known, _)| known == name)
            .map(|(_, values)| values.as_slice())
    }

    pub fn one(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(|values| values.first()).map(String::as_str)
    }
}

/// Lines without comments; one that ends with a comma goes on in the next.
pub(super) fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['*', '/', '#']) {
            continue;
        }
        // Text behind a blank is a comment, except within quotes.
        let mut is_quoted = false;
        let end = line.find(|c: char| {
            is_quoted ^= c == '"';
            c.is_whitespace() && !is_quoted
        });
        let line = &line[..end.unwrap_or(line.len())];
        match lines.last_mut().filter(|_| goes_on) {
            Some((_, before)) => before.push_str(line),
            None => lines.push((n + 1, line.to_owned())),
        }
        goes_on = line.ends_with(',');
    }
    lines
}

/// `name=value,name=(value,value),…`.
pub(super) fn parameters(line: &str) -> Result<Vec<(String, Vec<String>)>, String> {
    let mut found = Vec::new();
    let mut rest = line.trim_end_matches(',');
    while !rest.is_empty() {
        let (name, behind) = rest
            .split_once('=')
            .ok_or_else(|| format!("{rest:?} is not a parameter; write name=value"))?;
        let (values, after) = match behind.strip_prefix('(') {
            Some(list) => {
                let (list, after) = list.split_once(')').ok_or("a list ends with )")?;
                (list.split(',').map(|value| value.trim().to_owned()).collect(), after)
            }
            None => {
                let quoted = behind.strip_prefix('"').and_then(|text| text.split_once('"'));
                let (value, after) = quoted
                    .unwrap_or_else(|| behind.split_at(behind.find(',').unwrap_or(behind.len())));
                (vec![value.to_owned()], after)
            }
        };
        found.push((name.trim().to_ascii_lowercase(), values));
        rest = after.trim_start_matches(',');
    }
    Ok(found)
}

/// The definitions with these names, which may end with `*`; `None` if one is not there.
pub(super) fn chosen(all: &[Definition], names: &[String]) -> Option<Vec<Definition>> {
    let mut found = Vec::new();
    for name in names {
        let before = found.len();
        let matches = |definition: &&Definition| match name.strip_suffix('*') {
            Some(start) => definition.name.starts_with(start),
            None => definition.name == *name,
        };
        found.extend(all.iter().filter(matches).cloned());
        if found.len() == before {
            return None;
        }
    }
    Some(found)
}
