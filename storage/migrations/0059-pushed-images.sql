-- Whether the image registry may have images in the repositories of a user: they are removed before the user is. Of
-- those who were there before this was noted, nobody knows.
alter table users add column has_images boolean not null default true;
alter table users alter column has_images set default false;
