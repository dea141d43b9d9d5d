//! A server of static files, only for this machine.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tiny_http::{Header, Response, Server};

use crate::error::Error;

/// The files of a page and their address.
pub struct Site {
    server: Server,
    files: BTreeMap<String, PathBuf>,
}

impl Site {
    /// Opens the port, or a free port for 0. Serves the files that are in the folder now.
    pub fn open(page: &Path, port: u16) -> Result<Self, Error> {
        let mut files = BTreeMap::new();
        let entries = fs::read_dir(page).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::NoPage { path: page.into() },
            _ => Error::file(page)(source),
        })?;
        for entry in entries {
            let path = entry.map_err(Error::file(page))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            files.insert(format!("/{name}"), path);
        }
        if let Some(index) = files.get("/index.html").cloned() {
            files.insert("/".into(), index);
        }
        let failed = |reason: &dyn std::fmt::Display| Error::Serve {
            port,
            reason: reason.to_string(),
        };
        let server = Server::http(("127.0.0.1", port)).map_err(|e| failed(&e))?;
        Ok(Self { server, files })
    }

    pub fn address(&self) -> SocketAddr {
        let address = self.server.server_addr().to_ip();
        address.expect("the server has an address")
    }

    /// Answers requests as long as the program runs.
    pub fn serve(&self) {
        for request in self.server.incoming_requests() {
            let path = request.url().split(['?', '#']).next().unwrap_or_default();
            let content = self.files.get(path).and_then(|file| {
                let content = fs::read(file).ok()?;
                Some((content, kind(file)))
            });
            let answer = match content {
                Some((content, kind)) => Response::from_data(content)
                    .with_header(header("Content-Type", kind))
                    // A new build must be visible at once.
                    .with_header(header("Cache-Control", "no-cache")),
                None => Response::from_string("not found").with_status_code(404),
            };
            // A closed reader is not an error.
            let _ = request.respond(answer);
        }
    }
}

fn header(name: &str, value: &str) -> Header {
    Header::from_bytes(name, value).expect("name and value are ASCII")
}

fn kind(file: &Path) -> &'static str {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("wasm") => "application/wasm",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_page_is_named_with_its_command() {
        let page = Path::new("no/page");
        let error = Site::open(page, 0).err().expect("there is no page");
        let error = error.to_string();
        assert!(
            error.contains("no/page") && error.contains("web -- build"),
            "{error}"
        );
    }
}
