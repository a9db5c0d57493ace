"""The only SQL: PostgreSQL, embedded or one's own, as the one truth about what is planned, booted and measured.

`embedded` runs a cluster of our own, `schema` says what the tables are, `migrate` brings a database up to it,
`postgres` is the store that the loop writes to, `queries` reads rows for reports, `owner` names who holds a lease.
"""
