//! HTML written as its elements: `html! { p.hint { "at most " (limit) } }`.
//!
//! * `name { … }` is an element, `name;` one without an end tag.
//! * Behind the name come its classes, `.name`, `.name[condition]` or `.(value)`, and then its
//!   attributes, `name="text"`, `name=(value)` or `name[condition]`. A name that is not an identifier
//!   stands in quotes: `."lane-ink"`, `"aria-label"=(label)`.
//! * `"text"` and `(value)` are texts, and are escaped; [`Markup`] and [`Raw`] are not.
//! * `@if`, `@else`, `@for` and `@let` are those of Rust.
//!
//! A macro of rules, as one of code would need a parser of Rust.

/// HTML that is written as it is.
pub(super) struct Markup(String);

impl Markup {
    /// Wraps the text that [`html!`] wrote.
    pub(super) fn new(page: String) -> Markup {
        Markup(page)
    }

    /// Its text.
    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// A text that is HTML already.
pub(super) struct Raw<T>(pub T);

/// The first line of a document.
pub(super) const DOCTYPE: Raw<&str> = Raw("<!DOCTYPE html>");

/// A value in a page.
pub(super) trait Render {
    /// Writes it, escaped.
    fn render(&self, page: &mut String);
}

impl<T: Render + ?Sized> Render for &T {
    fn render(&self, page: &mut String) {
        T::render(self, page);
    }
}

impl Render for Markup {
    fn render(&self, page: &mut String) {
        page.push_str(&self.0);
    }
}

impl<T: AsRef<str>> Render for Raw<T> {
    fn render(&self, page: &mut String) {
        page.push_str(self.0.as_ref());
    }
}

impl Render for str {
    fn render(&self, page: &mut String) {
        for letter in self.chars() {
            match letter {
                '&' => page.push_str("&amp;"),
                '<' => page.push_str("&lt;"),
                '>' => page.push_str("&gt;"),
                '"' => page.push_str("&quot;"),
                other => page.push(other),
            }
        }
    }
}

impl Render for String {
    fn render(&self, page: &mut String) {
        self.as_str().render(page);
    }
}

impl Render for char {
    fn render(&self, page: &mut String) {
        self.encode_utf8(&mut [0; 4]).render(page);
    }
}

/// Numbers have nothing to escape.
macro_rules! render_numbers {
    ($($kind:ty)*) => {
        $(
            impl Render for $kind {
                fn render(&self, page: &mut String) {
                    page.push_str(&self.to_string());
                }
            }
        )*
    };
}

render_numbers! { u32 usize f64 }

/// See the module. The expression is a [`Markup`].
macro_rules! html {
    ($($content:tt)*) => {{
        let mut page = String::new();
        $crate::report::markup::nodes!(page $($content)*);
        $crate::report::markup::Markup::new(page)
    }};
}

/// Writes nodes to the end of a text, one after the other. `@…` are the states behind the first
/// token of a node.
macro_rules! nodes {
    ($page:ident) => {};

    // Behind the name of an element, or one of its attributes.
    (@element $page:ident $name:ident { $($body:tt)* } $($rest:tt)*) => {
        $page.push('>');
        $crate::report::markup::nodes!($page $($body)*);
        $page.push_str(concat!("</", stringify!($name), ">"));
        $crate::report::markup::nodes!($page $($rest)*);
    };
    (@element $page:ident $name:ident ; $($rest:tt)*) => {
        $page.push('>');
        $crate::report::markup::nodes!($page $($rest)*);
    };
    (@element $page:ident $name:ident . $($rest:tt)*) => {
        $page.push_str(" class=\"");
        $crate::report::markup::nodes!(@class "" $page $name . $($rest)*);
    };
    (@element $page:ident $name:ident $key:ident [$condition:expr] $($rest:tt)*) => {
        if $condition {
            $page.push_str(concat!(" ", stringify!($key)));
        }
        $crate::report::markup::nodes!(@element $page $name $($rest)*);
    };
    (@element $page:ident $name:ident $key:ident = $($rest:tt)*) => {
        $page.push_str(concat!(" ", stringify!($key), "=\""));
        $crate::report::markup::nodes!(@value $page $name $($rest)*);
    };
    (@element $page:ident $name:ident $key:literal = $($rest:tt)*) => {
        $page.push_str(concat!(" ", $key, "=\""));
        $crate::report::markup::nodes!(@value $page $name $($rest)*);
    };
    (@value $page:ident $name:ident $value:tt $($rest:tt)*) => {
        $crate::report::markup::nodes!($page $value);
        $page.push('"');
        $crate::report::markup::nodes!(@element $page $name $($rest)*);
    };

    // In the list of classes.
    (@class $space:literal $page:ident $name:ident . $class:ident [$condition:expr] $($rest:tt)*) => {
        if $condition {
            $page.push_str(concat!($space, stringify!($class)));
        }
        $crate::report::markup::nodes!(@class " " $page $name $($rest)*);
    };
    (@class $space:literal $page:ident $name:ident . $class:ident $($rest:tt)*) => {
        $page.push_str(concat!($space, stringify!($class)));
        $crate::report::markup::nodes!(@class " " $page $name $($rest)*);
    };
    (@class $space:literal $page:ident $name:ident . $class:tt $($rest:tt)*) => {
        $page.push_str($space);
        $crate::report::markup::nodes!($page $class);
        $crate::report::markup::nodes!(@class " " $page $name $($rest)*);
    };
    (@class $space:literal $page:ident $name:ident $($rest:tt)*) => {
        $page.push('"');
        $crate::report::markup::nodes!(@element $page $name $($rest)*);
    };

    // In the head of a condition or a loop, which its body ends.
    (@if $page:ident [$($head:tt)*] { $($body:tt)* } @else { $($other:tt)* } $($rest:tt)*) => {
        if $($head)* {
            $crate::report::markup::nodes!($page $($body)*);
        } else {
            $crate::report::markup::nodes!($page $($other)*);
        }
        $crate::report::markup::nodes!($page $($rest)*);
    };
    (@if $page:ident [$($head:tt)*] { $($body:tt)* } $($rest:tt)*) => {
        if $($head)* {
            $crate::report::markup::nodes!($page $($body)*);
        }
        $crate::report::markup::nodes!($page $($rest)*);
    };
    (@for $page:ident [$($head:tt)*] { $($body:tt)* } $($rest:tt)*) => {
        for $($head)* {
            $crate::report::markup::nodes!($page $($body)*);
        }
        $crate::report::markup::nodes!($page $($rest)*);
    };
    (@$of:tt $page:ident [$($head:tt)*] $next:tt $($rest:tt)*) => {
        $crate::report::markup::nodes!(@$of $page [$($head)* $next] $($rest)*);
    };

    // A node begins.
    ($page:ident @if $($rest:tt)*) => {
        $crate::report::markup::nodes!(@if $page [] $($rest)*);
    };
    ($page:ident @for $($rest:tt)*) => {
        $crate::report::markup::nodes!(@for $page [] $($rest)*);
    };
    ($page:ident @let $name:ident = $value:expr; $($rest:tt)*) => {
        let $name = $value;
        $crate::report::markup::nodes!($page $($rest)*);
    };
    ($page:ident ($value:expr) $($rest:tt)*) => {
        $crate::report::markup::Render::render(&$value, &mut $page);
        $crate::report::markup::nodes!($page $($rest)*);
    };
    ($page:ident $text:literal $($rest:tt)*) => {
        $crate::report::markup::Render::render($text, &mut $page);
        $crate::report::markup::nodes!($page $($rest)*);
    };
    ($page:ident $name:ident $($rest:tt)*) => {
        $page.push_str(concat!("<", stringify!($name)));
        $crate::report::markup::nodes!(@element $page $name $($rest)*);
    };
}

pub(super) use {html, nodes};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_classes_attributes_and_content() {
        let (known, label, lines) = (true, "a \"b\"", 3_usize);
        let page = html! {
            (DOCTYPE)
            td.word."lane-ink".(label) rowspan=(lines) "aria-label"=(label) for="x" {}
            tr.first[known] { "1 < 2" br; (Raw("<b>")) }
            tr.first[!known] checked[known] hidden[!known] type="radio";
        };
        assert_eq!(
            page.into_string(),
            "<!DOCTYPE html><td class=\"word lane-ink a &quot;b&quot;\" rowspan=\"3\" aria-label=\"a &quot;b&quot;\" for=\"x\"></td>\
             <tr class=\"first\">1 &lt; 2<br><b></tr><tr class=\"\" checked type=\"radio\">"
        );
    }

    #[test]
    fn conditions_and_loops_are_those_of_rust() {
        let list = |some: Option<&str>, all: &[u32]| {
            let page = html! {
                @let last = all.len();
                @if let Some(text) = some { p { (text) } } @else { hr; }
                @for (at, number) in all.iter().enumerate() {
                    @if at + 1 < last { (number) ", " }
                    @if at + 1 == last { (html! { em { (number) } }) }
                }
                "&"
            };
            page.into_string()
        };
        assert_eq!(list(Some("<"), &[7, 8]), "<p>&lt;</p>7, <em>8</em>&amp;");
        assert_eq!(list(None, &[]), "<hr>&amp;");
    }
}
