//! Words of commands that are printed for people to run.

/// A word, quoted for a shell where that is necessary.
pub(super) fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-._:@+%/=,…".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_read_otherwise_is_quoted() {
        assert_eq!(shell_word("nqn.2026-01.example:a"), "nqn.2026-01.example:a");
        assert_eq!(shell_word("a b?"), "'a b?'");
        assert_eq!(shell_word("o'hara"), r"'o'\''hara'");
    }
}
