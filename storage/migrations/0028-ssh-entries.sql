-- By the word of the glossary.
alter view ssh_doors rename to ssh_entries;
