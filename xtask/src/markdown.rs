//! As much of Markdown as the rules need: headings, links, fenced blocks and rows of tables.

/// A fenced block: the word behind the fence, its lines, and the paragraph before it.
#[derive(Debug, PartialEq, Eq)]
pub struct Fence<'a> {
    /// Text behind the opening fence.
    pub info: &'a str,
    /// Lines between the fences.
    pub lines: Vec<&'a str>,
    /// Lines of the paragraph before the opening fence.
    pub before: Vec<&'a str>,
}

/// A document taken apart.
#[derive(Debug, Default)]
pub struct Document<'a> {
    /// The headings, in order, with the number of fenced blocks before each.
    pub headings: Vec<(&'a str, usize)>,
    /// The fenced blocks, in order.
    pub fences: Vec<Fence<'a>>,
    /// Targets of inline links and link definitions.
    pub links: Vec<&'a str>,
    /// The rows of tables, each with its cells, without the lines below their heads.
    pub rows: Vec<Vec<&'a str>>,
}

impl<'a> Document<'a> {
    /// Takes a document apart.
    pub fn parse(text: &'a str) -> Self {
        let mut document = Self::default();
        let mut open: Option<&str> = None;
        let (mut paragraph, mut has_ended) = (Vec::new(), false);
        for line in text.lines() {
            let trimmed = line.trim_start();
            match open {
                Some(fence) if trimmed.starts_with(fence) => open = None,
                Some(_) => document.fences.last_mut().unwrap().lines.push(line),
                None => match ["```", "~~~"].into_iter().find(|fence| trimmed.starts_with(fence)) {
                    Some(fence) => {
                        open = Some(fence);
                        let info = trimmed[fence.len()..].trim();
                        let before = std::mem::take(&mut paragraph);
                        document.fences.push(Fence { info, lines: Vec::new(), before });
                    }
                    None => {
                        if std::mem::replace(&mut has_ended, line.is_empty()) && !line.is_empty() {
                            paragraph.clear();
                        }
                        paragraph.extend((!line.is_empty()).then_some(line));
                        document.prose(line);
                    }
                },
            }
        }
        document
    }

    /// Takes in a line that stands in no fenced block.
    fn prose(&mut self, line: &'a str) {
        let heading = line.trim_start_matches('#');
        if heading.len() < line.len() && heading.starts_with(' ') {
            self.headings.push((heading.trim(), self.fences.len()));
        }
        if let Some(row) = line.strip_prefix('|')
            && !row.starts_with("---")
        {
            self.rows
                .push(row.trim_end().trim_end_matches('|').split('|').map(str::trim).collect());
        }
        let spans = line.split('`').step_by(2);
        self.links.extend(
            spans
                .flat_map(|span| span.split("](").skip(1))
                .filter_map(|rest| rest.split([')', ' ']).next()),
        );
        if let Some((label, target)) = line.split_once("]: ")
            && label.starts_with('[')
        {
            self.links.push(target.trim());
        }
    }

    /// The names by which a link can reach the document's headings, as code hosts make them.
    pub fn anchors(&self) -> impl Iterator<Item = String> {
        self.headings.iter().map(|(heading, _)| {
            let kept = heading.to_lowercase().replace(' ', "-");
            kept.chars()
                .filter(|letter| letter.is_alphanumeric() || "-_".contains(*letter))
                .collect()
        })
    }

    /// The fenced blocks between a heading and the next.
    pub fn fences_under(&self, heading: &str) -> Option<&[Fence<'a>]> {
        let at = self.headings.iter().position(|(text, _)| *text == heading)?;
        let end = self.headings.get(at + 1).map_or(self.fences.len(), |(_, fences)| *fences);
        Some(&self.fences[self.headings[at].1..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_a_document_apart() {
        let text = "# One, `two`\n[a](b.md#c) and `[not](this)`\n```sh\n# no heading\n[no](link)\n```\n## Next\n[d]: e.md\n";
        let document = Document::parse(text);
        assert_eq!(document.anchors().collect::<Vec<_>>(), ["one-two", "next"]);
        assert_eq!(document.links, ["b.md#c", "e.md"]);
        assert_eq!(
            document.fences_under("One, `two`").unwrap()[0].lines,
            ["# no heading", "[no](link)"]
        );
        assert_eq!(document.fences[0].before, text.lines().take(2).collect::<Vec<_>>());
        assert_eq!(Document::parse("a\n\nb\nc\n\n```\n```\n").fences[0].before, ["b", "c"]);
        assert!(document.fences_under("Next").unwrap().is_empty());
        assert_eq!(
            Document::parse("| a | b |\n|---|---|\n| `c` | |\n").rows,
            [["a", "b"], ["`c`", ""]]
        );
    }
}
