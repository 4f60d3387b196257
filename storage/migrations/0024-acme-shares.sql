-- What each user has ordered of the installation's budget for new names, by day and registrable domain.
create table acme_shares (
  user_id text not null,
  registrable text not null,
  day date not null,
  orders int not null default 0,
  primary key (user_id, day, registrable)
);
