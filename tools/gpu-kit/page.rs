//! Writes the report as `kit.json`, and as `page.md` for people.

use std::{fs, path::Path};

use crate::{
    error::Error,
    part::PARTS,
    report::{End, Entry, Report},
};

/// Writes both files atomically.
pub fn write(report: &Report, out: &Path) -> Result<(), Error> {
    let json = serde_json::to_string_pretty(report).expect("numbers and text");
    for (name, text) in [("kit.json", json), ("page.md", page(report))] {
        let (part, whole) = (out.join(format!("{name}.part")), out.join(name));
        fs::write(&part, text).map_err(Error::file(&part))?;
        fs::rename(&part, &whole).map_err(Error::file(&whole))?;
    }
    Ok(())
}

fn page(report: &Report) -> String {
    let mut page = format!("# gru-op {} on this machine's GPU\n", report.version);
    for entry in &report.parts {
        let part = PARTS.iter().find(|part| part.name == entry.part);
        let (title, rows) = match part {
            Some(part) => (part.title, (part.page)(&entry.rows)),
            None => continue,
        };
        let end = match &entry.end {
            End::Done => "done".to_owned(),
            End::Short(left) => left.clone(),
            End::Killed => "killed after its time was over".to_owned(),
            End::Died(reason) => format!("**died**: {reason}"),
        };
        let Entry {
            program, seconds, ..
        } = entry;
        page += &format!("\n## {title}\n\n{program}, {seconds:.0} s, {end}.\n\n{rows}");
    }
    page
}
