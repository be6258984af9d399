//! The page's files, which are part of the program: `crates/manage/page`.

use include_dir::{Dir, include_dir};

static PAGE: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/page");

/// A file of the page as it is sent.
#[derive(Debug)]
pub struct PageFile {
    /// Its content.
    pub bytes: &'static [u8],
    /// Its media type.
    pub media: &'static str,
    /// True if the content is compressed by gzip.
    pub is_gzip: bool,
}

/// The file at this path. `gzip`: the client takes compressed content. `page`: for other paths, it wants the page itself.
pub fn file(path: &str, gzip: bool, page: bool) -> Option<PageFile> {
    let name = match path.trim_start_matches('/') {
        "" => "index.html",
        name => name,
    };
    // Compressed files are sent in place of what they hold, and never by themselves.
    let found = PAGE.get_file(name).filter(|_| !name.ends_with(".gz"));
    let (name, found) = match found {
        Some(found) => (name, found),
        None if page => ("index.html", PAGE.get_file("index.html")?),
        None => return None,
    };
    let media = match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "webmanifest" => "application/manifest+json",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    };
    let compressed = PAGE.get_file(format!("{name}.gz")).filter(|_| gzip);
    Some(PageFile { bytes: compressed.unwrap_or(found).contents(), media, is_gzip: compressed.is_some() })
}

#[cfg(test)]
mod tests {
    use super::file;

    #[test]
    fn the_page_is_at_the_root_and_nothing_lies_beside_it() {
        assert!(file("/", false, false).is_some_and(|page| page.media.starts_with("text/html") && !page.is_gzip));
        assert!(file("/arrays/tank", false, true).is_some(), "the page's own paths");
        for path in ["/arrays/tank", "/../Cargo.toml", "/%2e%2e/Cargo.toml", "//etc/passwd"] {
            assert!(file(path, true, false).is_none(), "{path}");
        }
    }
}
