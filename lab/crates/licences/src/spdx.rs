//! Licence expressions of SPDX (annex D of its specification), and `/` for "or" as old packages
//! write it.

use anyhow::{Result, bail};

/// Returns whether the expression is satisfied, given the licences that `allowed` accepts.
///
/// `allowed` is called for a licence with its exception as a whole
/// (`Apache-2.0 WITH LLVM-exception`).
pub fn satisfied(expression: &str, allowed: &mut dyn FnMut(&str) -> bool) -> Result<bool> {
    let mut parser = Parser { tokens: tokens(expression), at: 0, allowed };
    let value = parser.alternatives()?;
    if let Some(token) = parser.peek() {
        bail!("unexpected `{token}` in {expression}");
    }
    Ok(value)
}

/// Words and parentheses; a slash becomes `OR`.
fn tokens(expression: &str) -> Vec<String> {
    expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ")
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

struct Parser<'a> {
    tokens: Vec<String>,
    at: usize,
    allowed: &'a mut dyn FnMut(&str) -> bool,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.at).map(String::as_str)
    }

    /// Skips the token if it is this one.
    fn take(&mut self, token: &str) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    fn alternatives(&mut self) -> Result<bool> {
        let mut value = self.conjunction()?;
        while self.take("OR") {
            value |= self.conjunction()?;
        }
        Ok(value)
    }

    fn conjunction(&mut self) -> Result<bool> {
        let mut value = self.licence()?;
        while self.take("AND") {
            value &= self.licence()?;
        }
        Ok(value)
    }

    fn licence(&mut self) -> Result<bool> {
        if self.take("(") {
            let value = self.alternatives()?;
            if !self.take(")") {
                bail!("a parenthesis is not closed");
            }
            return Ok(value);
        }
        let mut name = self.word()?;
        if self.take("WITH") {
            name = format!("{name} WITH {}", self.word()?);
        }
        Ok((self.allowed)(&name))
    }

    fn word(&mut self) -> Result<String> {
        match self.peek() {
            Some(word) if !["(", ")", "AND", "OR", "WITH"].contains(&word) => {
                let word = word.to_owned();
                self.at += 1;
                Ok(word)
            }
            Some(token) => bail!("`{token}` where a licence was expected"),
            None => bail!("the expression ends where a licence was expected"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::satisfied;

    fn with(allowed: &[&str], expression: &str) -> bool {
        satisfied(expression, &mut |licence| allowed.contains(&licence)).unwrap()
    }

    #[test]
    fn binds_and_tighter_than_or() {
        assert!(with(&["MIT"], "MIT OR GPL-2.0-only AND ISC"));
        assert!(!with(&["MIT"], "(MIT OR GPL-2.0-only) AND ISC"));
        assert!(with(&["MIT", "ISC"], "(GPL-2.0-only OR MIT) AND ISC"));
        assert!(with(&["MIT"], "Apache-2.0/MIT"));
    }

    #[test]
    fn takes_an_exception_with_its_licence() {
        assert!(!with(&["GPL-2.0-only"], "GPL-2.0-only WITH Classpath-exception-2.0"));
        assert!(with(&["Apache-2.0 WITH LLVM-exception"], "Apache-2.0 WITH LLVM-exception"));
    }

    #[test]
    fn refuses_what_is_no_expression() {
        for expression in ["", "MIT OR", "MIT ISC", "(MIT", "AND MIT"] {
            assert!(satisfied(expression, &mut |_| true).is_err(), "{expression}");
        }
    }
}
