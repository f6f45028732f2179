//! The parts of a local source's URL; [`crate::grammar`] defines the grammar.

use crate::limits::BLOCK_BYTES_DEFAULT;
use crate::outcome::error::Error;
use crate::outcome::refusal::Refusal;
use crate::units;
use crate::url::grammar;

/// The options of one source or filter. Callers take them one by one; those left at the end are
/// unknown.
#[derive(Debug)]
pub(crate) struct UrlParts<'a> {
    url: &'a str,
    options: Vec<(&'a str, &'a str)>,
    known: Vec<&'static str>,
}

impl<'a> UrlParts<'a> {
    /// Splits `main[,name=value]…`, which follows the scheme of `url`, into the main part and the
    /// options.
    pub(crate) fn source(url: &'a str, rest: &'a str) -> (&'a str, Self) {
        let (main, options) = grammar::options(rest);
        (main, Self { url, options, known: Vec::new() })
    }

    /// Splits `[name=value,]…URL`, which follows the scheme of `url`, into the options and the
    /// inner URL.
    pub(crate) fn filter(url: &'a str, rest: &'a str) -> (&'a str, Self) {
        let mut inner = rest;
        let mut options = Vec::new();
        while let Some((first, after)) = inner.split_once(',')
            && let Some(pair) = grammar::option(first)
        {
            options.push(pair);
            inner = after;
        }
        (inner, Self { url, options, known: Vec::new() })
    }

    /// Splits the head of a list, `[main][,name=value]…`, into the main part, which may be empty,
    /// and the options.
    pub(crate) fn list(url: &'a str, head: &'a str) -> (&'a str, Self) {
        let (main, options) = grammar::list_head(head);
        (main, Self { url, options, known: Vec::new() })
    }

    /// An error in this URL.
    pub(crate) fn wrong(&self, what: Refusal) -> Error {
        Error::refused(self.url, what)
    }

    /// The value of an option, if present.
    pub(crate) fn text(&mut self, name: &'static str) -> Result<Option<&'a str>, Error> {
        self.known.push(name);
        let mut found = self.options.extract_if(.., |(n, _)| *n == name).map(|(_, value)| value);
        let (first, second) = (found.next(), found.next());
        drop(found);
        if second.is_some() {
            return Err(self.wrong(Refusal::OptionTwice { name }));
        }
        Ok(first)
    }

    /// An option that `parse` parses.
    pub(crate) fn parsed<T>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Error> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        parse(text)
            .map(Some)
            .map_err(|why| self.wrong(Refusal::OptionValue { name, value: text.into(), why }))
    }

    /// A size in bytes.
    pub(crate) fn size(&mut self, name: &'static str) -> Result<Option<u64>, Error> {
        self.parsed(name, |text| units::parse_size(text).map_err(|e| e.to_string()))
    }

    /// `on` or `off`.
    pub(crate) fn switch(&mut self, name: &'static str) -> Result<Option<bool>, Error> {
        self.parsed(name, |text| match text {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err("use on or off".into()),
        })
    }

    /// The block size, in bytes.
    pub(crate) fn block_bytes(&mut self) -> Result<Option<u32>, Error> {
        self.parsed("block", |text| match units::parse_size(text) {
            Ok(bytes @ (512 | 4096)) => Ok(bytes as u32),
            _ => Err("use 512 or 4096".into()),
        })
    }

    /// The UUID of the data.
    pub(crate) fn uuid(&mut self) -> Result<Option<uuid::Uuid>, Error> {
        self.parsed("uuid", |text| {
            uuid::Uuid::parse_str(text)
                .map_err(|_| "use a UUID of 36 characters, as printed by uuidgen".into())
        })
    }

    /// Rejects options that are left, and lists the known ones.
    pub(crate) fn finish(self) -> Result<(), Error> {
        let Some((name, _)) = self.options.first() else { return Ok(()) };
        Err(Error::refused(
            self.url,
            Refusal::UnknownOption { name: (*name).into(), known: self.known },
        ))
    }

    /// The number of blocks of a device of this size.
    pub(crate) fn blocks(&self, bytes: u64, block_bytes: u32) -> Result<u64, Error> {
        if bytes == 0 || !bytes.is_multiple_of(u64::from(block_bytes)) {
            return Err(self.wrong(Refusal::NotWholeBlocks { bytes, block_bytes }));
        }
        Ok(bytes / u64::from(block_bytes))
    }

    /// Size and block size of a source whose main part is its size.
    pub(crate) fn sized(&mut self, main: &str) -> Result<(u32, u64), Error> {
        let bytes = units::parse_size(main).map_err(|e| self.wrong(e.into()))?;
        let block_bytes = self.block_bytes()?.unwrap_or(BLOCK_BYTES_DEFAULT);
        Ok((block_bytes, self.blocks(bytes, block_bytes)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(rest: &str) -> (&str, usize) {
        let (main, spec) = UrlParts::source(rest, rest);
        (main, spec.options.len())
    }

    #[test]
    fn options_stand_at_the_end_of_a_source() {
        assert_eq!(cut("1GiB"), ("1GiB", 0));
        assert_eq!(cut("/a,b,size=1,block=2"), ("/a,b", 2));
        assert_eq!(cut("/a,size=1,b"), ("/a,size=1,b", 0));
        assert_eq!(cut("/a,size=1,"), ("/a,size=1", 0));
        assert_eq!(cut("/a,size=1,,block=2"), ("/a,size=1", 1));
        assert_eq!(cut("/a,Size=1"), ("/a,Size=1", 0));
    }

    #[test]
    fn options_stand_before_the_url_of_a_filter() {
        let (inner, spec) = UrlParts::filter("", "rate=0.1,seed=3,file:/x,size=1GiB");
        assert_eq!((inner, spec.options.len()), ("file:/x,size=1GiB", 2));
        let (inner, spec) = UrlParts::filter("", "nvme+tcp://host/nqn=a,b");
        assert_eq!((inner, spec.options.len()), ("nvme+tcp://host/nqn=a,b", 0));
    }

    #[test]
    fn the_head_of_a_list_may_have_no_main_part() {
        for (head, main, options) in
            [("", "", 0), ("64KiB", "64KiB", 0), ("64KiB,a=1,b=2", "64KiB", 2), ("a=1,b=2", "", 2)]
        {
            let (found, spec) = UrlParts::list("", head);
            assert_eq!((found, spec.options.len()), (main, options), "{head}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let (_, mut spec) = UrlParts::source("ram:1k,block=1000,speed=9", "1k,block=1000,speed=9");
        let refusal = |error: Error| error.refusal().cloned().unwrap();
        assert!(
            matches!(refusal(spec.block_bytes().unwrap_err()), Refusal::OptionValue { name: "block", value, .. } if value == "1000")
        );
        let unknown = Refusal::UnknownOption { name: "speed".into(), known: vec!["block"] };
        assert_eq!(refusal(spec.finish().unwrap_err()), unknown);
        let (_, mut spec) = UrlParts::source("x:1k,block=512,block=512", "1k,block=512,block=512");
        assert_eq!(
            refusal(spec.block_bytes().unwrap_err()),
            Refusal::OptionTwice { name: "block" }
        );
    }
}
