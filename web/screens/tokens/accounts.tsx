/** Service accounts: rights that several tokens share, and that can be changed while these are in use. */
import { Bot, KeySquare, Trash, UserPen } from 'lucide';
import { useState } from 'preact/hooks';
import { dateOf } from '../../core/format.ts';
import type { LoadedData } from '../../core/resource.ts';
import { containers } from '../../live/live.ts';
import { AddButton, Button } from '../../parts/button.tsx';
import { Menu } from '../../parts/menu.tsx';
import { Empty, Loading } from '../../parts/note.tsx';
import { Panel } from '../../parts/panel.tsx';
import { RowOf, Rows, RowsOf } from '../../parts/rows.tsx';
import { t } from '../../text/text.ts';
import { ChangeRights, DeleteAccount, NewAccount } from './account-questions.tsx';
import { NewToken } from './new.tsx';
import { draftFrom, rightsSentence, type ServiceAccountLine } from './scopes.ts';
import { type ListedToken, TokenRow } from './token-row.tsx';

interface AskedAccount {
  readonly account: ServiceAccountLine;
  readonly what: 'token' | 'rights' | 'delete';
}

interface ServiceAccountsProps {
  readonly accounts: LoadedData<readonly ServiceAccountLine[]>;
  /** All tokens of the caller. */
  readonly tokens: readonly ListedToken[];
  /** Tokens were made or are gone. */
  readonly onTokens: () => void;
}

export function ServiceAccounts({ accounts, tokens, onTokens }: ServiceAccountsProps) {
  const [isAdding, setAdding] = useState(false);
  const [asked, setAsked] = useState<AskedAccount>();
  const list = accounts.value;
  const changed = () => {
    accounts.reload();
    onTokens();
  };
  const close = () => setAsked(undefined);
  return (
    <Panel
      title={t.accounts.title}
      aside={<AddButton kind="bare" name={t.accounts.add} onClick={() => setAdding(true)} />}
    >
      <Loading data={accounts} tall={64} />
      {list !== undefined && (
        <RowsOf list={list} none={<Empty icon={Bot} title={t.accounts.none} lead={t.accounts.noneLead} />}>
          {(account) => (
            <AccountRow
              key={account.id}
              account={account}
              tokens={tokens.filter(({ service_account_id }) => service_account_id === account.id)}
              onAsk={(what) => setAsked({ account, what })}
              onTokens={changed}
            />
          )}
        </RowsOf>
      )}
      {isAdding && <NewAccount onClose={() => setAdding(false)} onMade={accounts.reload} />}
      {asked?.what === 'token' && <NewToken account={asked.account} onClose={close} onMade={changed} />}
      {asked?.what === 'rights' && <ChangeRights account={asked.account} onClose={close} onDone={changed} />}
      {asked?.what === 'delete' && <DeleteAccount account={asked.account} onClose={close} onDone={changed} />}
    </Panel>
  );
}

interface AccountRowProps {
  readonly account: ServiceAccountLine;
  readonly tokens: readonly ListedToken[];
  readonly onAsk: (what: AskedAccount['what']) => void;
  readonly onTokens: () => void;
}

function AccountRow({ account: { name, scopes, created_at }, tokens, onAsk, onTokens }: AccountRowProps) {
  const ask = (what: AskedAccount['what']) => () => onAsk(what);
  const nameOf = (id: string) => containers.value?.find((one) => one.id === id)?.name ?? id;
  return (
    <RowOf
      name={name}
      about={[rightsSentence(draftFrom(scopes), nameOf), t.accounts.made(dateOf(created_at * 1000))]}
      actions={
        <>
          <Button icon={KeySquare} onClick={ask('token')}>
            {t.tokens.add}
          </Button>
          <Menu
            label={t.accounts.more(name)}
            items={[
              { name: t.accounts.rights, icon: UserPen, onClick: ask('rights') },
              { name: t.accounts.delete, icon: Trash, isDanger: true, onClick: ask('delete') },
            ]}
          />
        </>
      }
    >
      {tokens.length > 0 && (
        <div class="within">
          <Rows>
            {tokens.map((token) => (
              <TokenRow key={token.id} token={token} onGone={onTokens} />
            ))}
          </Rows>
        </div>
      )}
    </RowOf>
  );
}
