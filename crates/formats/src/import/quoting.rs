//! Splits a command line as Windows programs do.

/// The words of a command line: separated by blanks, except within double quotes, which may stand
/// anywhere in a word. A backslash is itself, as in paths of Windows.
pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut is_word, mut is_quoted) = (String::new(), false, false);
    for c in line.chars() {
        match c {
            '"' => (is_quoted, is_word) = (!is_quoted, true),
            c if c.is_whitespace() && !is_quoted => {
                if core::mem::take(&mut is_word) {
                    words.push(core::mem::take(&mut word));
                }
            }
            c => {
                word.push(c);
                is_word = true;
            }
        }
    }
    if is_word {
        words.push(word);
    }
    words
}
