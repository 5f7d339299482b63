# SPDX-License-Identifier: Apache-2.0
"""The words that are printed in the drawn images.

Training does not use every HELD_OUT_STEP-th word of the dictionary, so that reading can also be measured on words that
the model has not seen.
"""

DICTIONARY = """
able about above across act add after again air airport alarm all alone along also always among
angle animal answer apple april area arm arrow art ask august aunt autumn avenue away baby back
bacon bag bake ball banana bank bar base basket bath beach beans bear beauty bed beer bell below
berry best better big bike bird black blank block blue board boat body bone book boots border bottle
bottom bowl box boy brake brave bread break brick bridge bright bring broken brother brown brush
bubble bucket build bus bush busy butter button buy cabin cable cafe cake call camera camp candle
candy car card care carpet carrot cart cash castle cat caution cell center chain chair chalk change
cheap check cheese cherry chess chicken child church cinema circle city clean clear clock close
closed cloud coat coffee coin cold color comb come cook cool copy corn corner cotton count country
cover cow cream cross crowd crown cup curve customs cut daily dance danger dark data date day deep
deer delta desk diamond dinner dirt dish doctor dog dollar door double down dragon draw dream dress
drink drive drop dry duck dust eagle ear early earth east easy eat echo edge egg eight electric
elevator empty end engine enjoy enter equal escape even event exit express eye face factory fair
fall family far farm fast father feather fence ferry field fifty film final find fire fish five fix
flag flame flat floor flour flower fly focus fog food foot forest fork forty forward fox fragile
free fresh friday friend frog front frozen fruit fuel full fun game garage garden gas gate ghost
gift ginger girl give glass globe glove goal gold golf good grade grain grape grass gravel green
grill ground group guard guest guide guitar gym hair half hall hammer hand happy harbor hard hat
have hawk hazel head heart heat heavy hello help here high hill hold hole holiday home honey horse
hospital hot hotel hour house hungry ice idea inch index inside island ivory jacket january jazz
jelly jewel join juice july jump june jungle just keep key kick king kiosk kitchen kite knife ladder
lake lamp land lane large laser last late laundry leaf left lemon letter level library lift light
lily lime line lion list little lock long look lost loud love low lucky lunch machine magic mail
main make man map maple march market mask may meal meat medal melon menu metal metro middle milk
mill mind mint mirror moment monday money monkey moon morning motel motor mountain mouse mouth move
movie museum music nail name narrow near neck needle nest never new news nice night nine noise north
nose note number nurse oak ocean office oil old olive onion only open orange orbit order organ oven
owl paint palace panda paper park parking party pasta path pay peach pear pen pencil people pepper
phone photo piano pick picnic pilot pin pink pizza place plane plant plate platform play please plum
pocket point police pond pool port post potato pottery press price print prize public pull pump
purple push quality queen quick quiet quiz rabbit radio rail rain ramp ready red rent repair rest
return rice rich ride right ring river road robot rocket roof room rope rose round route royal ruby
ruler run safe sail salad sale salt sand saturday sauce save school science sea season seat second
secret sell send seven shade shark sharp sheep shelf ship shirt shoes shop short show shower shut
sign silent silver simple sister six size skate ski sky sleep slow small smoke smooth snack snow
soap soccer socks soda sofa soft solar song soup south space spice spoon sport spring square staff
stage stairs stamp star start station steam steel step stone stop store storm story street strong
sugar summer sun sunday super sweet swim table tail talk tall tango tank tape taste taxi tea teach
team ten tennis tent thank theater three thunder ticket tiger time tiny toast today toilet tomato
tool tooth top tower town toy track traffic trail train tram travel tree truck tuesday tulip tunnel
turn turtle twelve twenty two uncle under unit up upper urban use valley value vanilla velvet video
view village violin visit voice wait walk wall warm warning wash watch water wave way weather
wednesday week welcome west wet wheel white wide wild wind window wine winter wolf woman wood wool
word work world yard year yellow yes young zebra zero zone zoo
""".split()

HELD_OUT_STEP = 12
HELD_OUT = DICTIONARY[::HELD_OUT_STEP]
TRAINING = [word for index, word in enumerate(DICTIONARY) if index % HELD_OUT_STEP]

SYLLABLES = """ba be bi bo bu ca co da de di do du fa fe fi fo ga go gu ha he hi ho in ja jo ka ke ki la le li lo
lu ma me mi mo mu na ne ni no or pa pe pi po ra re ri ro sa se si so st ta te ti to tu un va ve ver
vi wa wi ya ye yo za zo an en er th sh ch qu ing ly""".split()
CODE_CHARACTERS = 'ABCDEFGHJKLMNPQRSTUVWXYZ0123456789'
HELD_OUT_SET = frozenset(HELD_OUT)


def change_case(rng, word):
    """Returns the word in upper case, with a capital, or as it is."""
    chance = rng.random()
    if chance < 0.35:
        return word.upper()
    return word.capitalize() if chance < 0.6 else word


def random_word(rng, longest):
    """Draws a training word: from the dictionary, from syllables, a number, or a code of capitals and digits."""
    chance = rng.random()
    if chance < 0.45:
        word = rng.choice(TRAINING)
    elif chance < 0.7:
        word = ''.join(rng.choice(SYLLABLES) for _ in range(rng.randint(1, 3)))
        if word in HELD_OUT_SET:
            word = word[::-1]
    elif chance < 0.86:
        return str(rng.randint(0, 10 ** rng.randint(1, min(5, longest)) - 1))
    else:
        return ''.join(rng.choice(CODE_CHARACTERS) for _ in range(rng.randint(2, min(6, longest))))
    return change_case(rng, word[:longest])
